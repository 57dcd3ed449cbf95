/* The life of a container as the commands see it. One function a command; every one returns 0 (or what it
 * says) or a negative errno with err filled. */
#ifndef PYSBX_CONTAINER_LIFECYCLE_H
#define PYSBX_CONTAINER_LIFECYCLE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/arena.h"
#include "cgroup/cgroup.h"
#include "container/record.h"
#include "warm/observe/observe.h"

struct error;
struct json_out;
struct spec_process;
struct spec_resources;

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
    enum observe_mode observe;  /* the program, of a probe or template */
};

struct exec_options {
    const char *id;
    struct arena *arena;          /* that the following lies in */
    struct spec_process *process; /* complete: what --process or the options said, see exec_default_process */
    const char *pid_file, *console_socket;
    const char *cgroup; /* sub-cgroup beneath the container's, or NULL */
    unsigned preserve_fds, listen_fds;
    bool detach, ignore_paused;
};

struct save_options {
    const char *id;
    pid_t pid;        /* as the caller's pid namespace numbers it */
    const char *file; /* where to: an empty file that only the caller may open, or none */
};

/* Make the container and leave its init waiting for start. */
int container_create(const struct runtime_options *rt, const struct create_options *options,
                     struct error *err);

/* Let the init of a created container go on to its program; poststart hooks. */
int container_start(const struct runtime_options *rt, const char *id, struct error *err);

/* create and start; without detach, wait for the program and delete. *exit_code: the program's (128+n for a
 * signal). */
int container_run(const struct runtime_options *rt, const struct create_options *options, int *exit_code,
                  struct error *err);

/* Signal the init, or with `all` every process in the container's cgroup. -ESRCH with "container not running"
 * when it is stopped. */
int container_kill(const struct runtime_options *rt, const char *id, int sig, bool all, struct error *err);

/* Take everything away. force: kill first, and a container that does not exist is success. */
int container_delete(const struct runtime_options *rt, const char *id, bool force, struct error *err);

int container_pause(const struct runtime_options *rt, const char *id, struct error *err);
int container_resume(const struct runtime_options *rt, const char *id, struct error *err);

/* Change limits of a container that is not stopped. resources_text: the JSON that
 * resources were parsed from. */
int container_update(const struct runtime_options *rt, const char *id, const struct spec_resources *resources,
                     struct error *err);

/* Run one more process in a running container. Without detach *exit_code is the process' (128+n for a
 * signal). */
int container_exec(const struct runtime_options *rt, const struct exec_options *options, int *exit_code,
                   struct error *err);

/* The process object from the container's own config.json, with args, to be changed by the options of exec:
 * user, capabilities, labels and limits are the container's. In the arena. */
int exec_default_process(struct arena *a, const struct runtime_options *rt, const char *id,
                         struct spec_process **out, struct error *err);

/* Pids of all processes in the container, as the caller's pid namespace numbers them; in the arena. */
int container_pids(struct arena *a, const struct runtime_options *rt, const char *id, pid_t **pids,
                   size_t *count, struct error *err);

/* Statistics of the container's cgroup as the events record of containerd ({"type":"stats",…}). */
int container_stats(const struct runtime_options *rt, const char *id, struct json_out *out,
                    struct error *err);

/* Open the container's directory and read its record (in the arena); *dirfd is the caller's to close. */
int container_open_record(struct arena *a, const struct runtime_options *rt, const char *id, int *dirfd,
                          struct record *out, struct error *err);

/* What create would do, as JSON; touches nothing. */
int container_plan(const struct runtime_options *rt, const struct create_options *options,
                   struct json_out *out, struct error *err);

/* Make the snapshot of the container's program ahead of time (`warm build`); the container itself is not
 * made. */
int container_warm_build(const struct runtime_options *rt, const struct create_options *options,
                         struct error *err);

/* Save a process of the container that has parked itself, for create_options.snapshot (`warm save`,
 * warm/session.h). It goes on waiting, and is of no use any more. -ESRCH: it is not one of the container. */
int container_save(const struct runtime_options *rt, const struct save_options *options, struct error *err);

/* One entry of `list`. */
struct listed {
    struct record record;
    enum status status;
};
/* All containers below the state root, by name; unreadable records are left out. *items in the arena. */
int container_list(struct arena *a, const struct runtime_options *rt, struct listed **items, size_t *count,
                   struct error *err);
/* The same below a state root that is open. */
int container_list_in(struct arena *a, int root, struct listed **items, size_t *count, struct error *err);

#endif
