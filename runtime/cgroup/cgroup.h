/* The cgroup of a container (cgroup v2 only): planned from the specification, created before the first
 * process, and found by every later command in the container's record. See cgroups(7), the kernel's
 * admin-guide/cgroup-v2.rst, and runtime-spec's config-linux.md#control-groups and #cgroup-ownership.
 * Functions return 0 or negative errno with err filled, unless they say otherwise. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cgroup/types.h"

struct arena;
struct error;
struct json_out;
struct spec;
struct spec_resources;
struct cgroup_job; /* a scope that systemd is starting */

/* Return the word of --cgroup-manager: "cgroupfs", "systemd" or "disabled". */
const char *cgroup_manager_name(enum cgroup_manager manager);

/* Decide everything about the container's cgroup from the specification. This reads the system (mounts, own
 * cgroup, permissions) but changes nothing. If a rootless runtime may not create the cgroup and no limit is
 * set, it continues without one: plan->ref.manager is then CGROUP_MANAGER_DISABLED, and plan->reason is set.
 * Errors, by JSON path: contradictions in linux.resources, values that cgroup v2 cannot express, and limits
 * that need a missing cgroup. */
int cgroup_plan(struct arena *a, const struct spec *spec, const struct cgroup_options *options,
                struct cgroup_plan **out, struct error *err);

/* Write the plan as a JSON object. */
void cgroup_describe(const struct cgroup_plan *plan, struct json_out *out);

/* Return whether a location that was read from a record has all its parts, and is not the root, which would
 * be frozen or killed with everything else. */
bool cgroup_is_located(const struct cgroup_ref *ref);

/* Create the cgroup, enable the controllers from the top down, and write the limits, in the parent before the
 * clone. *dirfd is for CLONE_INTO_CGROUP, and the caller closes it. It is -1 if cgroups are disabled, or if
 * systemd creates the cgroup after the clone. On failure, everything created is removed. */
int cgroup_create(const struct cgroup_plan *plan, int *dirfd, struct error *err);

/* After the clone, while process `pid` continues with its setup: ask systemd for a scope that contains the
 * process, without waiting. *job is NULL for other managers. */
int cgroup_attach_begin(const struct cgroup_plan *plan, pid_t pid, struct cgroup_job **job,
                        struct error *err);
/* Wait for the scope, create the sub-cgroup, move the process, and write the limits. The job is freed in any
 * case; without a job this succeeds. `path` is set to the process's cgroup. The caller records it as
 * ref.path, because it differs from the plan if the user's manager is in an unusual place. After a failure
 * cgroup_destroy removes the scope. Do not call it after -EEXIST: that scope belongs to another container. */
int cgroup_attach_finish(struct cgroup_job *job, char path[PATH_MAX], struct error *err);

/* Load the BPF device filter, which takes a third of a millisecond. The process can continue meanwhile.
 * *program is a descriptor that the caller closes, or -1 if there are no rules. */
int cgroup_load_devices(const struct cgroup_plan *plan, int *program, struct error *err);
/* Attach the filter to the cgroup at `ref`, unless `program` is -1. To be called after the process has
 * created the devices of the container, because the rules apply to it from then on, and before its program
 * runs. */
int cgroup_confine(const struct cgroup_ref *ref, int program, struct error *err);

/* Kill the remaining processes, wait until the cgroup is empty (at most 5 s), and remove it and everything
 * below. For systemd, also stop the scope. A missing cgroup is success. The error lists the processes that
 * did not end. */
int cgroup_destroy(const struct cgroup_ref *ref, struct error *err);

/* Remove the cgroup if the runtime may have created it before it was killed. It is only removed if it has no
 * process and no child cgroup, because otherwise another container uses it. A scope of systemd ends with its
 * last process. */
void cgroup_discard(const struct cgroup_ref *ref);

/* Return an O_PATH descriptor of the cgroup's directory, for CLONE_INTO_CGROUP of exec. `sub`, if not NULL,
 * is a path that has to stay below it. Negative errno on failure: -ENOENT if the cgroup is gone, -ENOTSUP if
 * the container has none, like all functions below that need one. */
int cgroup_open(const struct cgroup_ref *ref, const char *sub, struct error *err);
/* Return an O_PATH descriptor of the current cgroup of process `pid`, in the tree of `ref`, or a negative
 * errno. */
int cgroup_open_of(const struct cgroup_ref *ref, pid_t pid, struct error *err);
/* Return a descriptor for use after CLONE_INTO_CGROUP has failed with EBUSY: the container has made its
 * cgroup an inner node, which cannot contain processes. It is the current cgroup of `init` if that is below
 * the container's, otherwise a sub-cgroup "exec". Negative errno on failure. */
int cgroup_open_fallback(const struct cgroup_ref *ref, pid_t init, struct error *err);
/* Move a process into the directory, if it could not be cloned into it. A rootless runtime outside the
 * delegated tree may not move a process across its boundary, so systemd does that. `sub` is the same as for
 * cgroup_open. */
int cgroup_move(const struct cgroup_ref *ref, const char *sub, int dirfd, pid_t pid, struct error *err);

/* Send a signal to every process in the cgroup and below. It is no error if there is none, or no
 * cgroup. -ESRCH: this pid namespace shows none of them. */
int cgroup_kill(const struct cgroup_ref *ref, int sig, struct error *err);

/* Stop or continue every process. cgroup_freeze waits until the kernel reports that all have stopped. After
 * 10 s it undoes the request and returns -ETIMEDOUT. */
int cgroup_freeze(const struct cgroup_ref *ref, struct error *err);
int cgroup_thaw(const struct cgroup_ref *ref, struct error *err);
/* Return 1 if the cgroup is frozen or being frozen, 0 if it is not or does not exist, or negative errno. */
int cgroup_frozen(const struct cgroup_ref *ref);

/* Return all processes in the cgroup and below, in the arena, in no particular order. -ENOENT if the cgroup
 * is gone. */
int cgroup_pids(struct arena *a, const struct cgroup_ref *ref, pid_t **pids, size_t *count,
                struct error *err);

/* Change the limits of a running container. Values that `resources` does not contain stay. Device rules, if
 * there are any, replace the earlier ones. */
int cgroup_update(struct arena *a, const struct cgroup_ref *ref, const struct spec_resources *resources,
                  struct error *err);

/* Write the "data" object of `events --stats` (cpu, memory, pids, blkio, hugetlb) as one JSON value. Missing
 * controllers are omitted. */
int cgroup_stats(const struct cgroup_ref *ref, struct json_out *out, struct error *err);

/* Return a descriptor that becomes readable if the kernel's memory events of the cgroup change or the cgroup
 * disappears: inotify(7) on memory.events. -ENOENT without a memory controller. */
int cgroup_oom_watch(const struct cgroup_ref *ref, struct error *err);
/* Set *count to the number of OOM-killed processes of the cgroup. 0 or negative errno. */
int cgroup_oom_kills(const struct cgroup_ref *ref, uint64_t *count);
