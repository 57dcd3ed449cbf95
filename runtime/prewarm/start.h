/* The facts of a program that is about to start, in a new container or by exec, as prewarming needs them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct process_plan;
struct runtime_options;
struct spec;

struct start {
    const struct runtime_options *rt;
    const char *id;              /* of the container */
    const char *bundle, *rootfs; /* absolute */
    const struct spec *spec;     /* the container's, with the process of this start */
    /* Its `launch` says in the end how the program begins. */
    struct process_plan *process;
    bool own_mounts; /* the container has its own mount namespace */
    bool no_pivot;   /* as in create_options */
    bool exec;       /* the container exists already */
    bool waits;      /* run --compare-fd: the program is used later */
    /* container/tracing.h. For exec, the program is then cloned late. */
    bool traceable;
    /* The text of the configuration, for the containers of probe and builder. */
    const char *config;
    size_t config_size;
};
