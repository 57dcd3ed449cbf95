/* The last steps of a child: drop the runtime's binary, become the container's user, wait for start, and
 * become the program. The process keeps only the code of the static program that these two functions reach
 * (sandbox/detach.h), so they never return to their callers. The linker finds this code, but does not see
 * pointers to functions that were stored before. Such a pointer must not be called (container/launch.h).
 * Both functions end when the program is executed, or after they have told the runtime, or start, why it
 * is not. */
#pragma once

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
    int copy;         /* of the runtime's program, see sandbox/detach.h */
    int sync;         /* to the runtime that creates the container */
    int start_socket; /* listens for start; -1: the order to start comes over `sync` (run) */
    /* The runtime writes ID maps or moves devices before this process may begin. */
    bool wait_first;
    bool compared;   /* run --compare-fd */
    bool wait_scope; /* systemd moves this process to its cgroup while it mounts */
};

struct exec_context {
    struct process_plan *plan;
    struct seccomp_handover *handover;
    int copy;  /* as in detach_from_binary */
    int sync;  /* to the runtime */
    bool late; /* this process clones the one that executes the program: late_clone.h */
    /* The arenas that hold the plan's data. The late clone does not inherit them. NULL: none. */
    struct arena *arenas[2];
};

/* Finish the container's first process. */
_Noreturn void init_finish(const struct init_context *context, struct process_program *program);

/* Finish a process of exec. */
_Noreturn void exec_finish(const struct exec_context *context, struct process_program *program);
