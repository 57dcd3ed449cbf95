/* The parts of the container that a builder gets: only those that the imports of its probe were seen to look
 * at. The snapshot must not hold any other part of the container, because other containers read the restored
 * memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "spec/spec.h"

struct arena;

struct builder_needs {
    struct str_list paths; /* files and directories, sorted */
    const char *digests;   /* of random generators, each after a space (agent/bootstrap.py) */
    const char *values;    /* the same of values that a second probe compares, "" for none */
    struct str_list names; /* of variables, sorted */
    bool reads_mounts;     /* a library reads the list of mounts: OBSERVE_BUILDER */
    /* The imports read all variables. HOSTNAME is included only if it is among the names (manifest.h). */
    bool whole_environment;
};

/* Read the needs from a probe's report that manifest_build has accepted. Strings point into the report or
 * live in the arena. */
void builder_needs_read(struct arena *a, const char *report, size_t size, struct builder_needs *out);

/* Return the container's variables that the builder gets: those that are part of the key, and the needed
 * ones. The list lives in the arena, its strings are those of `environment`. */
struct str_list builder_needs_environment(struct arena *a, const struct builder_needs *needs,
                                          const struct str_list *environment);

/* Return whether the builder needs anything at or beneath the path, which is clean and absolute. */
bool builder_needs_path(const struct builder_needs *needs, const char *path);
