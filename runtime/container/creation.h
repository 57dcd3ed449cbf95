/* A container that is being created: its plan, and the resources that its creator holds. */
#pragma once

#include <limits.h>

#include "base/arena.h"
#include "container/plan.h"
#include "container/record.h"

enum creation_goal {
    /* create: init waits for start, on the socket in the container's directory. */
    CREATION_WAITS,
    CREATION_RUNS,         /* run: init goes on to the program at once */
    CREATION_STAYS_A_PLAN, /* plan: nothing is made, and no socket is opened */
};

struct creation {
    struct arena arena;
    struct plan plan;
    struct record record;
    int root, dir;    /* the state root, and the container's directory */
    int pidfd;        /* its init, a child of the calling process */
    int sync;         /* to the init, until it executes its program */
    int devices;      /* the loaded BPF device filter, -1 for none */
    int pidfd_socket; /* where the pidfd is sent to, -1 for nowhere */
    int status_file;  /* where the end of the program is written to, -1 for nowhere */
    int inside;       /* run --compare-fd: the root as the program sees it; -1 if it was not restored */
    enum creation_goal goal;
    struct stdio_loan loan;
    /* The cgroup's path as systemd has made it. record.cgroup.path points here. */
    char scope_path[PATH_MAX];
};

#define CREATION_NONE                                                                                        \
    ((struct creation){.plan = PLAN_NONE,                                                                    \
                       .root = -1,                                                                           \
                       .dir = -1,                                                                            \
                       .pidfd = -1,                                                                          \
                       .sync = -1,                                                                           \
                       .devices = -1,                                                                        \
                       .pidfd_socket = -1,                                                                   \
                       .inside = -1,                                                                         \
                       .status_file = -1})
