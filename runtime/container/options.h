/* The options of the command line: those of every command, and those of commands that create a container. */
#pragma once

#include <stdbool.h>

#include "cgroup/cgroup.h"

/* The global options, in force for every command. */
struct runtime_options {
    const char *root; /* --root; NULL: the default */
    enum cgroup_manager cgroup_manager;
    /* The runtime's version. Its caches are used by the same version only. */
    const char *version;
};

struct create_options {
    const char *id;
    const char *bundle; /* --bundle, default "." */
    /* --config: path of the configuration, relative to the bundle; default "config.json" */
    const char *config;
    const char *pid_file; /* --pid-file; NULL: none */
    const char *console_socket;
    const char *pidfd_socket; /* --pidfd-socket; NULL: none */
    unsigned preserve_fds;    /* descriptors 3 … 3+n-1 are passed to the container */
    unsigned listen_fds;      /* the number of those from socket activation (sd_listen_fds(3)) */
    /* --snapshot: a session that the program continues; NULL: none */
    const char *snapshot;
    const char *snapshot_base; /* --snapshot-base: the snapshot that it refers to; NULL: none */
    unsigned snapshot_fd;      /* run only: --snapshot-fd, a socket over which both come; 0: none */
    bool no_pivot, no_new_keyring;
    bool init;                  /* the first process is a minimal init: container/first.h */
    bool detach;                /* run only */
    const char *status_file;    /* run only: --status-file; NULL: none */
    unsigned compare_fd;        /* run only: --compare-fd; 0: none */
    bool keep;                  /* run only: leave the state of the stopped container */
    bool no_subreaper;          /* run only */
    bool die_with_runtime;      /* kill the program when its parent ends */
    const char *landlock_allow; /* a file that Landlock's rules leave readable; NULL: none */
};
