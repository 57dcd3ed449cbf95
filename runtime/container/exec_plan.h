/* One more process in a container, as exec.c makes it: what is known of it, and what is decided beforehand.
 */
#ifndef PYSBX_CONTAINER_EXEC_PLAN_H
#define PYSBX_CONTAINER_EXEC_PLAN_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "container/lifecycle.h"
#include "container/process.h"
#include "container/record.h"

struct error;
struct seccomp_handover;
struct warm_start;

struct execution {
    struct arena arena;
    const struct exec_options *options;
    struct record record;
    struct process_plan plan;
    struct warm_start *warm; /* what was decided about the program; NULL: it is no interpreter */
    struct seccomp_handover *handover;
    int copy; /* of the runtime's program, see detach.h */
    int dir;
    int lock;  /* nobody in the container may trace yet, see watched.h; -1 where it makes no difference */
    int init;  /* pidfd of the container's init */
    int pidfd; /* the new process */
    int sync;
    pid_t pid;
    bool apart;
};

/* Open the container of x->options, refuse where the process would be one that cannot be or must not be, and
 * plan it: everything up to `handover`, and `dir`, `lock`, `init` and `apart`. Nothing outside of the
 * execution is changed but for a snapshot that may be made, and the mark of who may trace (watched.h). What
 * was opened belongs to the execution also after a failure. 0 or a negative errno. */
int execution_plan(struct execution *x, const struct runtime_options *rt, struct error *err);

#endif
