/* The configuration of a probe or builder. */
#ifndef PYSBX_PREWARM_BUILDER_SPEC_H
#define PYSBX_PREWARM_BUILDER_SPEC_H

#include <stdint.h>

struct arena;
struct builder_needs;
struct spec;
struct start;

/* What runs in a probe or builder instead of the container's program. */
struct builder_program {
    const char *path;        /* of the interpreter in the container */
    const char *agent;       /* the agent as a file of the host */
    const char *const *argv; /* interpreter, flags, bootstrap, its arguments; NULL last */
    uint64_t memory;         /* bytes of address space at most, 0: what the container may have */
};

/* Return the configuration of the container, changed so that nothing outlives the builder: mounts are
 * read-only, and there are no network, hooks and terminal; with this program, limits and a host name that
 * says nothing. With `needs`, for a builder: without variables and mounts that it does not need. NULL, for a
 * probe: with all of them, and with the agent preloaded. Reads the container's root. Strings are those of the
 * start or live in the arena. */
const struct spec *builder_spec(struct arena *a, const struct start *start,
                                const struct builder_program *program, const struct builder_needs *needs);

#endif
