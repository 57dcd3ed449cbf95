/* What a template is given of the container: only what the imports of its probe were seen to look at.
 * Whatever else the container has, its snapshot must not hold, for other containers read the memory that is
 * restored. */
#ifndef PYSBX_PREWARM_BUILDER_NEEDS_H
#define PYSBX_PREWARM_BUILDER_NEEDS_H

#include <stdbool.h>
#include <stddef.h>

#include "spec/spec.h"

struct arena;

struct builder_needs {
    struct str_list paths;  /* files and directories, sorted */
    const char *digests;    /* of random generators, each behind a blank (agent/bootstrap.py) */
    struct str_list names;  /* of variables, sorted */
    bool reads_mounts;      /* a library does: OBSERVE_BUILDER */
    bool whole_environment; /* all variables, HOSTNAME only if it is among the names (manifest.h) */
};

/* From a probe's report that manifest_build has accepted. Strings are those of the report or lie in the
 * arena. */
void builder_needs_read(struct arena *a, const char *report, size_t size, struct builder_needs *out);

/* The variables of the container that the template gets: those that are part of the key, and the needed ones.
 */
struct str_list builder_needs_environment(struct arena *a, const struct builder_needs *needs,
                                          const struct str_list *environment);

/* Does the template need anything at the path (clean and absolute) or beneath it? */
bool builder_needs_path(const struct builder_needs *needs, const char *path);

#endif
