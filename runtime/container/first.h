/* The minimal init of `run --init` and `create --init`. The container's first process is then not the program
 * but an init, and the program is its child. So the kernel gives the program's signals their default actions,
 * which it ignores for the first process of a pid namespace (pid_namespaces(7)).
 *
 * The first process takes all steps of a container's init up to `start`. Then it clones the process of the
 * program, which shares its memory (CLONE_VM), so that nothing is copied and a snapshot that is mapped
 * already stays where it is. The clone confines itself, and becomes the program. The first process leaves the
 * memory to it: it executes a program of a few hundred bytes (child/first_program.c), which is a sealed file
 * in memory. Nothing of the runtime is left in it, and no descriptor.
 *
 * The init reaps orphans, passes on signals that come from outside the container, and ends when the program
 * ends. A process in its own pid namespace cannot end by a signal of its choice. So the exit code is 128 and
 * the number of the signal then, and run reads the exact status from a page that it shares with the init. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct error;

struct first_plan {
    bool wanted; /* otherwise the members below do not count */
    int program; /* the init: a sealed file in memory that can only be executed */
    int report;  /* a file in memory of one page for the status of the program, or -1 */
    /* That page, in the runtime, or NULL. */
    const volatile int *page;
    /* The lowest byte of the stack of the program's process until it becomes the program, or NULL. The child
     * has a copy. It could not make one, because the program's limits hold for it by then. */
    char *stack;
    /* In the child: not 0 while the first process uses the memory of the program's process. */
    int shared;
};

/* Four times the stack that the deepest chain of calls in the runtime uses (child/late_clone.c). */
#define FIRST_STACK_SIZE ((size_t)256 * 1024)

#define FIRST_PLAN_NONE ((struct first_plan){.program = -1, .report = -1})

/* Runtime, before the clone: make the files and the stack. `reports`: the runtime wants the status. Return 0
 * or a negative errno. */
int first_prepare(struct first_plan *first, bool reports, struct error *err);

/* Runtime: close and unmap what first_prepare has made. */
void first_release(struct first_plan *first);

/* Runtime, when the init has ended with `status` (waitpid(2)): return the status of the program. If the init
 * has been killed before the program ended, that is `status` itself. */
int first_status(const struct first_plan *first, int status);
