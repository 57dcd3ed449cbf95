/* What the child does last: let go of the runtime's binary, become the container's user, wait for start, be
 * the program. Of the static program's code only what these two functions reach stays in the process
 * (sandbox/detach.h): their callers are never returned to, and a pointer to a function that was stored before
 * must not be used, for the linker, which finds out what they reach, does not see that. Both end with the
 * program executed, or after they have told the runtime, or start, why it is not. */
#ifndef PYSBX_CONTAINER_FINISH_H
#define PYSBX_CONTAINER_FINISH_H

#include <stdbool.h>

struct init_context;
struct process_plan;
struct process_program;
struct seccomp_handover;

struct exec_context {
    struct process_plan *plan;
    struct seccomp_handover *handover;
    int copy;   /* as in detach_from_binary */
    int sync;   /* to the runtime */
    bool apart; /* this process has no number in the container: see container/exec.c */
    struct arena
        *arenas[2]; /* all that the plan points to, which the clone of a process apart has not; or NULL */
};

/* The container's first process. */
_Noreturn void init_finish(const struct init_context *context, struct process_program *program);

/* A process of exec. */
_Noreturn void exec_finish(const struct exec_context *context, struct process_program *program);

#endif
