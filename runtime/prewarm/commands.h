/* The commands that start a program, and some of `warm`: plan, decide how the program begins, act. Every
 * function returns 0 or a negative errno with err filled. */
#pragma once

#include <sys/types.h>

#include "container/exec_plan.h"
#include "container/options.h"

struct error;
struct json_out;

/* Create the container and leave its init waiting for start. */
int prewarm_create(const struct runtime_options *rt, const struct create_options *options, struct error *err);

/* Create and start the container. Without detach, wait for the program and delete the container. *exit_code
 * is then the program's, 128+n for a signal. */
int prewarm_run(const struct runtime_options *rt, const struct create_options *options, int *exit_code,
                struct error *err);

/* Run one more process in a running container. Without detach, wait for it. *exit_code is then the process's,
 * 128+n for a signal. */
int prewarm_exec(const struct runtime_options *rt, const struct exec_options *options, int *exit_code,
                 struct error *err);

/* Write the plan of create as JSON, and change nothing. */
int prewarm_plan(const struct runtime_options *rt, const struct create_options *options, struct json_out *out,
                 struct error *err);

/* Make the snapshot of the container's program ahead of time (`warm build`), without creating the
 * container. */
int prewarm_build(const struct runtime_options *rt, const struct create_options *options, struct error *err);

struct save_options {
    const char *id;
    pid_t pid; /* in the pid namespace of the caller */
    /* The output: an empty file that only the caller may open, or a path without a file. */
    const char *file;
    bool differences; /* leave out the pages that the container's snapshot has */
    bool kill;        /* the process, also after an error */
};

/* Save a process of the container that has parked itself, for create_options.snapshot (`warm save`,
 * warm/session.h). The process goes on waiting, and is of no further use. *base: the path of the snapshot
 * that has other pages, in the arena, or NULL. -ESRCH: it is not a process of the container. */
int prewarm_save(struct arena *a, const struct runtime_options *rt, const struct save_options *options,
                 const char **base, struct error *err);

struct checkpoint_options {
    const char *id;
    const char *image_path; /* the directory for the checkpoint: warm/image.h */
    const char *work_path;  /* the directory for statistics (prewarm/criu_statistics.h); NULL: none */
    bool leave_running;     /* else the container is killed once it is saved */
};

/* Save the program of the container, which waits in the agent's park(), and end the container. After an error
 * it goes on. -ENOTSUP names the resource that cannot be saved. */
int prewarm_checkpoint(const struct runtime_options *rt, const struct checkpoint_options *options,
                       struct error *err);

/* As prewarm_run, with the checkpoint of a directory. `work_path` as above. */
int prewarm_restore(const struct runtime_options *rt, const struct create_options *options,
                    const char *image_path, const char *work_path, int *exit_code, struct error *err);
