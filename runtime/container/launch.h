/* How the program of a process begins. execve(2) is one way (container/execve.h). The caller of creation_make
 * or execution_run can supply another one, as prewarm/restore_launch.c does. The functions are called at
 * fixed points of the life of a process. NULL means that there is nothing to do at that point.
 *
 * A process keeps only the code of the static program that the linker can reach from init_finish and
 * exec_finish (container/child/finish.h). The linker does not see calls through a table. So the Makefile
 * names every struct launch_child: LAUNCHES. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct error;
struct json_out;
struct launch;
struct process_plan;
struct seccomp_handover;
struct seccomp_plan;

/* In the child. */
struct launch_child {
    /* The child waits for its network namespace: do the work that needs no file of the container.
     * `own_pages`: the child has its cgroup and its memory policy, so pages that it touches now are charged
     * to the container. */
    void (*overlap)(const struct launch *launch, bool own_pages);
    /* The child has the container's root, user and capabilities, and has found the program. Return 0, or a
     * negative errno. A launch that cannot begin puts another one into the plan. */
    int (*check)(struct process_plan *plan, const char *program, int channel, struct error *err);
    /* The child holds nothing of the host, and reports next that it is ready: load a filter that has a
     * listener. */
    int (*arm)(struct process_plan *plan, struct seccomp_handover *handover, int channel, struct error *err);
    /* Hooks in the container have run since `check`: files may have changed. */
    void (*distrust)(const struct launch *launch);
    /* Confine the process and become the program. Return only on failure. If `fallback` is set, the process
     * is then as it was before. `handover` may be NULL. */
    int (*enter)(struct process_plan *plan, struct seccomp_handover *handover, const char *program,
                 int channel, struct error *err);
};

/* In the runtime. */
struct launch_parent {
    /* The child is busy: take over a part of its check, and send the result over `channel` (sync.h). */
    int (*verify)(const struct launch *launch, int channel, struct error *err);
    /* Compare the files of the program that runs with those beneath `root`, as it sees them. Return 0 if the
     * program is what a start would make now. */
    int (*compare)(const struct launch *launch, int root, struct error *err);
    /* The child has given up this launch, for `reason`, and begins in another way. */
    void (*refused)(const struct launch *launch, const struct error *reason);
    /* The child loads `filter`: receive its listener. `pidfd`: the child. */
    int (*listen)(const struct launch *launch, struct seccomp_handover *handover, int pidfd,
                  struct error *err);
    /* Serve the child until `channel` has a message. */
    int (*serve)(const struct launch *launch, int channel, struct error *err);
    /* Write the member of `plan` that tells how the program begins. */
    void (*describe)(const struct launch *launch, struct json_out *out);
    /* Close and free what the launch holds. */
    void (*release)(const struct launch *launch);
};

/* Descriptors that a launch keeps open up to `enter`. */
#define LAUNCH_KEPT 3

struct launch {
    const struct launch_child *child;
    const struct launch_parent *parent;
    void *state; /* of the implementation */
    /* The process becomes the program without execve(2). So the process itself writes its labels, and clears
     * everything that execve(2) would clear. */
    bool in_place;
    bool fallback;         /* if `enter` fails, the program is executed */
    int kept[LAUNCH_KEPT]; /* owned by the implementation; -1: none */
    /* Has a listener, and is loaded before the container's own filter. NULL: none. */
    const struct seccomp_plan *filter;
};

/* Call a function of the tables if it is set. */

static inline void launch_overlap(const struct launch *launch, bool own_pages)
{
    if (launch->child->overlap != NULL)
        launch->child->overlap(launch, own_pages);
}

static inline int launch_check(const struct launch *launch, struct process_plan *plan, const char *program,
                               int channel, struct error *err)
{
    return launch->child->check != NULL ? launch->child->check(plan, program, channel, err) : 0;
}

static inline int launch_arm(const struct launch *launch, struct process_plan *plan,
                             struct seccomp_handover *handover, int channel, struct error *err)
{
    return launch->child->arm != NULL ? launch->child->arm(plan, handover, channel, err) : 0;
}

static inline void launch_distrust(const struct launch *launch)
{
    if (launch->child->distrust != NULL)
        launch->child->distrust(launch);
}

static inline int launch_verify(const struct launch *launch, int channel, struct error *err)
{
    return launch->parent->verify != NULL ? launch->parent->verify(launch, channel, err) : 0;
}

static inline int launch_compare(const struct launch *launch, int root, struct error *err)
{
    return root >= 0 && launch->parent->compare != NULL ? launch->parent->compare(launch, root, err) : -1;
}

static inline void launch_refused(const struct launch *launch, const struct error *reason)
{
    if (launch->parent->refused != NULL)
        launch->parent->refused(launch, reason);
}

static inline int launch_serve(const struct launch *launch, int channel, struct error *err)
{
    return launch->parent->serve != NULL ? launch->parent->serve(launch, channel, err) : 0;
}

static inline void launch_describe(const struct launch *launch, struct json_out *out)
{
    if (launch->parent->describe != NULL)
        launch->parent->describe(launch, out);
}

static inline void launch_release(const struct launch *launch)
{
    if (launch != NULL && launch->parent->release != NULL)
        launch->parent->release(launch);
}
