/* The commands that start a program, and the ones of `warm`: plan, decide how the program begins, act. Every
 * function returns 0 or a negative errno with err filled. */
#ifndef PYSBX_PREWARM_COMMANDS_H
#define PYSBX_PREWARM_COMMANDS_H

#include <sys/types.h>

#include "container/exec_plan.h"
#include "container/options.h"

struct error;
struct json_out;

/* Create the container and leave its init waiting for start. */
int prewarm_create(const struct runtime_options *rt, const struct create_options *options, struct error *err);

/* Create and start; without detach, wait for the program and delete. *exit_code: the program's (128+n for a
 * signal). */
int prewarm_run(const struct runtime_options *rt, const struct create_options *options, int *exit_code,
                struct error *err);

/* Run one more process in a running container. Without detach *exit_code is the process' (128+n for a
 * signal). */
int prewarm_exec(const struct runtime_options *rt, const struct exec_options *options, int *exit_code,
                 struct error *err);

/* Write what create would do, as JSON; change nothing. */
int prewarm_plan(const struct runtime_options *rt, const struct create_options *options, struct json_out *out,
                 struct error *err);

/* Make the snapshot of the container's program ahead of time (`warm build`), but not the container. */
int prewarm_build(const struct runtime_options *rt, const struct create_options *options, struct error *err);

struct save_options {
    const char *id;
    pid_t pid;        /* in the pid namespace of the caller */
    const char *file; /* to write: an empty file that only the caller may open, or none */
};

/* Save a process of the container that has parked itself, for create_options.snapshot (`warm save`,
 * warm/session.h). It goes on waiting, and is of no further use. -ESRCH: it is not one of the container. */
int prewarm_save(const struct runtime_options *rt, const struct save_options *options, struct error *err);

#endif
