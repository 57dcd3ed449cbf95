/* What prewarming needs to know of a program that is about to start, in a new container or by exec. */
#ifndef PYSBX_PREWARM_START_H
#define PYSBX_PREWARM_START_H

#include <stdbool.h>
#include <stddef.h>

struct process_plan;
struct runtime_options;
struct spec;

struct start {
    const struct runtime_options *rt;
    const char *id;               /* of the container */
    const char *bundle, *rootfs;  /* absolute */
    const struct spec *spec;      /* of the container, with the process of this start */
    struct process_plan *process; /* its `launch` says in the end how the program begins */
    bool own_mounts;              /* the container has a mount namespace */
    bool no_pivot;                /* as in create_options */
    bool exec;                    /* the container exists already */
    bool traceable;               /* container/tracing.h; of exec: the program is cloned late */
    /* The text of the configuration, for the containers of the builder. */
    const char *config;
    size_t config_size;
};

#endif
