/* exec into a traceable container (container/tracing.h): the process that executes the program is cloned
 * late.
 *
 * The child of exec stays outside the pid namespace of the container, where no process of it can name the
 * child. There it takes all steps of a process of exec, the filter included. Then it forgets what it knows of
 * the host, and clones the process that executes the program, with CLONE_PARENT. A process that traces the
 * clone from its first instant on finds nothing that the program will not have.
 *
 * The price: the filter must allow clone(2) and setsid(2), with a terminal ioctl(2). A filter with a listener
 * is refused, and so is a scheduler that a clone does not inherit. No snapshot is restored, because a
 * restorer installs the filter itself. For a moment one process more counts. */
#ifndef PYSBX_CONTAINER_CHILD_LATE_CLONE_H
#define PYSBX_CONTAINER_CHILD_LATE_CLONE_H

#include <sys/types.h>

struct arena;
struct error;
struct process_plan;

struct late_clone {
    struct process_plan *plan;
    int sync; /* to the runtime */
    /* What the plan points to, and the clone does not get. NULL: none. */
    struct arena *const *arenas;
    size_t arena_count;
};

/* In the child: load the filter, forget, clone, and execute the program in the clone. Return only on failure.
 */
int late_clone_start(const struct late_clone *clone, const char *program, struct error *err);

/* In the runtime, when the child is ready: let it clone, and go on with the clone. *pid and *pidfd are those
 * of the child, and then of the clone. 0 or a negative errno. */
int late_clone_follow(int sync, pid_t *pid, int *pidfd, struct error *err);

#endif
