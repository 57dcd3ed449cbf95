/* The configuration of a probe or builder. */
#pragma once

#include <stdint.h>

struct arena;
struct builder_needs;
struct spec;
struct start;

/* The program that runs in a probe or builder instead of the container's. */
struct builder_program {
    const char *path;        /* of the interpreter in the container */
    const char *agent;       /* the agent's file on the host */
    const char *const *argv; /* interpreter, flags, bootstrap, the bootstrap's arguments; NULL last */
    uint64_t memory;         /* limit of address space in bytes; 0: the container's limit */
};

/* Return the configuration of the container, changed so that nothing outlives the builder. Mounts are
 * read-only, and there are no network, hooks and terminal. It has this program, these limits, and a host name
 * that reveals nothing. With `needs`, for a builder, it leaves out variables and mounts that are not needed.
 * With NULL, for a probe, it has all of them, and the agent is preloaded. This reads the container's root.
 * Strings are those of the start or live in the arena. */
const struct spec *builder_spec(struct arena *a, const struct start *start,
                                const struct builder_program *program, const struct builder_needs *needs);
