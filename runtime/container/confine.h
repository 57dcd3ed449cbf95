/* A process without a container: the process object of a bundle in the caller's own namespaces and root, held
 * by Landlock, a filter of system calls, rlimits and no_new_privs alone. It is for surroundings that allow no
 * user namespace, such as the containers of other engines. */
#pragma once

struct error;
struct runtime_options;

struct confine_options {
    const char *bundle;      /* --bundle, default "." */
    const char *config;      /* --config, relative to the bundle; default "config.json" */
    const char *status_file; /* --status-file; NULL: none */
};

/* Run the process to its end, and kill every process of its session then. It is killed when the runtime gets
 * a signal that ends programs, when the runtime ends, and when nothing reads the pipe of the status file any
 * more. *exit_code is 128+n for a signal.
 *
 * Before anything is started, refuse a property that only a container has: namespaces, mounts, hooks,
 * cgroups. Refuse a process without no_new_privs, with capabilities or on a terminal, and one without a
 * filter or without Landlock. Return 0 or a negative errno. */
int confine_run(const struct runtime_options *rt, const struct confine_options *options, int *exit_code,
                struct error *err);
