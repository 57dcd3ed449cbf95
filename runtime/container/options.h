/* What the command line says: of every command, and of those that make a container. */
#ifndef PYSBX_CONTAINER_OPTIONS_H
#define PYSBX_CONTAINER_OPTIONS_H

#include <stdbool.h>

#include "cgroup/cgroup.h"

/* The global options, in force for every command. */
struct runtime_options {
    const char *root; /* --root or NULL */
    enum cgroup_manager cgroup_manager;
    const char *version; /* of the runtime: what it caches is used by the same version only */
};

struct create_options {
    const char *id;
    const char *bundle; /* --bundle, default "." */
    const char
        *config; /* --config: path of the configuration, relative to the bundle; default "config.json" */
    const char *pid_file; /* --pid-file or NULL */
    const char *console_socket;
    unsigned preserve_fds; /* descriptors 3 … 3+n-1 are passed to the container */
    unsigned listen_fds;   /* so many of them came by socket activation (sd_listen_fds(3)) */
    const char *snapshot;  /* --snapshot: of a session, which the program continues; or NULL */
    bool no_pivot, no_new_keyring;
    bool detach;                /* run only */
    bool keep;                  /* run only: leave the state of the stopped container */
    bool no_subreaper;          /* run only */
    bool die_with_runtime;      /* the program is killed when the process that made it ends */
    const char *landlock_allow; /* a file that Landlock's rules leave readable; or NULL */
};

#endif
