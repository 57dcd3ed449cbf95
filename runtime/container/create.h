/* Making a container: what create and run share. */
#ifndef PYSBX_CONTAINER_CREATE_H
#define PYSBX_CONTAINER_CREATE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "container/lifecycle.h"
#include "container/plan.h"
#include "container/record.h"

struct error;

enum creation_goal {
    CREATION_WAITS, /* create: init waits on the socket in the container's directory for start */
    CREATION_RUNS,  /* run: init goes on to the program at once */
};

/* A container that was made, and what its maker holds of it. */
struct creation {
    struct arena arena;
    struct plan plan;
    struct record record;
    int root, dir; /* state root, the container's directory */
    int pidfd;     /* its init: a child of the calling process */
    int sync;      /* to the init, until it executes its program */
    int devices;   /* the loaded device program, -1 for none */
    int listener;  /* of the observer's filter, -1 for none */
    struct observer *observer;
    bool owns_cgroup; /* it was made; before that the name on record may be another container's */
    enum creation_goal goal;
};

#define CREATION_NONE                                                                                        \
    ((struct creation){                                                                                      \
        .plan = PLAN_NONE, .root = -1, .dir = -1, .pidfd = -1, .sync = -1, .devices = -1, .listener = -1})

/* Plan and make the container; returns when the goal is reached. On failure nothing is left behind and the
 * creation is released. */
int creation_make(const struct runtime_options *rt, const struct create_options *options,
                  enum creation_goal goal, struct creation *out, struct error *err);

/* The same for a configuration that is not the bundle's own file; `source` has to outlive the creation. */
int creation_make_from(const struct runtime_options *rt, const struct create_options *options,
                       const struct plan_source *source, enum creation_goal goal, struct creation *out,
                       struct error *err);

/* Close and free; the container stays. */
void creation_release(struct creation *creation);

#endif
