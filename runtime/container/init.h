/* The child that becomes the container's init: carries out the plan, waits for start,
 * executes the program. */
#ifndef PYSBX_CONTAINER_INIT_H
#define PYSBX_CONTAINER_INIT_H

#include <stdbool.h>

struct plan;
struct record;
struct seccomp_handover;

struct init_context {
    struct plan *plan;
    const struct record *record; /* for the state on the standard input of hooks */
    struct seccomp_handover *handover;
    int copy;         /* of the runtime's program, see detach.h */
    int sync;         /* to the runtime that creates the container */
    int start_socket; /* listening: where start will call; -1: the start comes over `sync` (run) */
    bool wait_first; /* the runtime does something for this process (mappings, devices) before it may begin */
    bool wait_scope; /* systemd takes this process to its cgroup, while it mounts */
};

/* Never returns: executes the program or ends, after it has told the runtime (or start) why. */
_Noreturn void init_main(const struct init_context *context);

#endif
