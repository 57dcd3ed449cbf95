/* Commands on a container that exists. Every function returns 0 or a negative errno with err filled. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "container/options.h"

struct arena;
struct error;
struct json_out;
struct spec_resources;

/* Let the init of a created container go on to its program, and run the poststart hooks. */
int container_start(const struct runtime_options *rt, const char *id, struct error *err);

/* Send a signal to the init, or with `all` to every process in the container's cgroup. If the container is
 * stopped, `all` succeeds because no process is left, as with other runtimes. Otherwise -ESRCH with
 * "container not running". */
int container_kill(const struct runtime_options *rt, const char *id, int sig, bool all, struct error *err);

/* Remove the container. With `force`, kill its processes first; then a container that does not exist is a
 * success. */
int container_delete(const struct runtime_options *rt, const char *id, bool force, struct error *err);

/* Freeze the container's cgroup. */
int container_pause(const struct runtime_options *rt, const char *id, struct error *err);
/* Thaw the container's cgroup. */
int container_resume(const struct runtime_options *rt, const char *id, struct error *err);

/* Change limits of a container that is not stopped. */
int container_update(const struct runtime_options *rt, const char *id, const struct spec_resources *resources,
                     struct error *err);

/* Return the pids of all processes in the container, as the caller's pid namespace numbers them, in the
 * arena. */
int container_pids(struct arena *a, const struct runtime_options *rt, const char *id, pid_t **pids,
                   size_t *count, struct error *err);

/* Write statistics of the container's cgroup as the events record of containerd: {"type":"stats",…}. */
int container_stats(const struct runtime_options *rt, const char *id, struct json_out *out,
                    struct error *err);
