/* The last steps of a child: drop the runtime's binary, become the container's user, wait for start, become
 * the program. Of the static program's code only what these two functions reach stays in the process
 * (sandbox/detach.h). Their callers are never returned to. The linker finds out what they reach and does not
 * see a pointer to a function that was stored before, so none may be called: container/launch.h. Both
 * functions end with the program executed, or after the runtime (or start) was told why it is not. */
#ifndef PYSBX_CONTAINER_CHILD_FINISH_H
#define PYSBX_CONTAINER_CHILD_FINISH_H

#include <stdbool.h>

struct arena;
struct plan;
struct process_plan;
struct process_program;
struct record;
struct seccomp_handover;

struct init_context {
    struct plan *plan;
    const struct record *record; /* for the state on the standard input of hooks */
    struct seccomp_handover *handover;
    int copy;         /* of the runtime's program, see detach.h */
    int sync;         /* to the runtime that creates the container */
    int start_socket; /* listening for start; -1: the order to start comes over `sync` (run) */
    bool wait_first;  /* the runtime writes maps or moves devices before this process may begin */
    bool wait_scope;  /* systemd moves this process to its cgroup while it mounts */
};

struct exec_context {
    struct process_plan *plan;
    struct seccomp_handover *handover;
    int copy;  /* as in detach_from_binary */
    int sync;  /* to the runtime */
    bool late; /* this process clones the one that executes the program: late_clone.h */
    /* What the plan points to. The late clone does not get it. NULL: none. */
    struct arena *arenas[2];
};

/* Finish the container's first process. */
_Noreturn void init_finish(const struct init_context *context, struct process_program *program);

/* Finish a process of exec. */
_Noreturn void exec_finish(const struct exec_context *context, struct process_program *program);

#endif
