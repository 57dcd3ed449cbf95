/* exec into a traceable container (container/tracing.h): clone the process that executes the program late.
 *
 * The child of exec stays outside the container's pid namespace, where no process of the container can name
 * it. There it takes all steps of a process of exec, the filter included. Then it forgets all it knows of the
 * host, and clones the process that executes the program, with CLONE_PARENT. A process that traces the clone
 * from its first instant finds nothing that the program will not have.
 *
 * This has a price. The filter must allow clone(2) and setsid(2), and ioctl(2) if there is a terminal. A
 * filter with a listener is refused, and so is a scheduler that a clone does not inherit. No snapshot is
 * restored, because a restorer installs the filter itself. For a moment the container has one process
 * more. */
#pragma once

#include <sys/types.h>

struct arena;
struct error;
struct process_plan;

struct late_clone {
    struct process_plan *plan;
    int sync; /* to the runtime */
    /* The arenas that hold the plan's data. The clone does not inherit them. NULL: none. */
    struct arena *const *arenas;
    size_t arena_count;
};

/* In the child: load the filter, forget the host, clone, and execute the program in the clone. Return a
 * negative errno, only on failure. */
int late_clone_start(const struct late_clone *clone, const char *program, struct error *err);

/* In the runtime, when the child is ready: let it clone, and go on with the clone. *pid and *pidfd are those
 * of the child, and afterwards those of the clone. Return 0 or a negative errno. */
int late_clone_follow(int sync, pid_t *pid, int *pidfd, struct error *err);
