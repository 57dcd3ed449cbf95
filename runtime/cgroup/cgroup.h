/* The cgroup of a container (cgroup v2 only): planned from the specification, made before the first process,
 * found again by every later command through its record. Governed by cgroups(7), the kernel's
 * admin-guide/cgroup-v2.rst and the sections "Control groups" of runtime-spec's config-linux.md. */
#ifndef PYSBX_CGROUP_CGROUP_H
#define PYSBX_CGROUP_CGROUP_H

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

/* "cgroupfs", "systemd", "disabled": the words of --cgroup-manager. */
const char *cgroup_manager_name(enum cgroup_manager manager);
/* 0 or -EINVAL for another word. */
int cgroup_manager_parse(const char *name, enum cgroup_manager *manager);

/* Decide everything about the container's cgroup from the specification; reads the system (mounts, own
 * cgroup, permissions), changes nothing. A rootless runtime that may not make the cgroup continues without
 * one when no limit is asked for (plan->ref.manager is then CGROUP_MANAGER_DISABLED and plan->reason set).
 * Errors: contradictions in linux.resources and what cgroup v2 cannot express by JSON path, a limit that
 * cannot be set because there is no cgroup. */
int cgroup_plan(struct arena *a, const struct spec *spec, const struct cgroup_options *options,
                struct cgroup_plan **out, struct error *err);

/* The plan as a JSON map. */
void cgroup_describe(const struct cgroup_plan *plan, struct json_out *out);

/* Make the cgroup, enable the controllers on the way down, write the limits; in the parent, before the clone.
 * *dirfd is for CLONE_INTO_CGROUP, the caller's to close; -1 when cgroups are disabled or systemd makes the
 * cgroup after the clone. What was made is removed again on failure. */
int cgroup_create(const struct cgroup_plan *plan, int *dirfd, struct error *err);

/* After the clone, while process `pid` goes on with its set-up. systemd: ask for a scope with the process in
 * it, without waiting; *job is NULL for other managers. */
int cgroup_attach_begin(const struct cgroup_plan *plan, pid_t pid, struct cgroup_job **job,
                        struct error *err);
/* Wait for the scope, make the sub-cgroup, move the process, write the limits. The
 * job is freed whatever the outcome; NULL is success. `path` gets the cgroup the process is in now, which is
 * to be recorded as ref.path: it differs from the plan when the user's manager lives in an unusual place.
 * After a failure cgroup_destroy takes the scope away; not after -EEXIST: that scope is somebody else's. */
int cgroup_attach_finish(struct cgroup_job *job, char path[PATH_MAX], struct error *err);

/* Load the device program: a third of a millisecond that the process need not wait for. *program is the
 * caller's to close; -1 when there are no rules. */
int cgroup_load_devices(const struct cgroup_plan *plan, int *program, struct error *err);
/* Attach it (-1: nothing to do): when the process has made the devices of the container, for the rules are
 * about what is in there, and before its program runs. ref: where the cgroup is by now. */
int cgroup_confine(const struct cgroup_ref *ref, int program, struct error *err);

/* Kill what is left, wait (5 s at most) until the cgroup is empty and remove it with everything beneath; for
 * systemd stop the scope as well. A cgroup that is not there is success. The error lists the processes that
 * would not die. */
int cgroup_destroy(const struct cgroup_ref *ref, struct error *err);

/* It is not known whether the runtime made the cgroup before it was killed. Remove it if it holds no process
 * and no cgroup; else it is in use by another container. A scope of systemd ends with its last process. */
void cgroup_discard(const struct cgroup_ref *ref);

/* Directory of the cgroup (O_PATH), for CLONE_INTO_CGROUP of exec; `sub`, when not NULL, is a path that stays
 * beneath it. Descriptor or negative errno; -ENOENT when the cgroup is gone, -ENOTSUP when the container has
 * none (so do all functions below that need one). */
int cgroup_open(const struct cgroup_ref *ref, const char *sub, struct error *err);
/* When CLONE_INTO_CGROUP of that directory fails with EBUSY: the container has turned its cgroup into an
 * inner node, which holds no processes. The cgroup that `init` is in now, if it is beneath ours, else a
 * sub-cgroup "exec". Descriptor or negative errno. */
int cgroup_open_fallback(const struct cgroup_ref *ref, pid_t init, struct error *err);
/* Move a process into the directory: when the clone could not be made there (a rootless runtime outside the
 * delegated tree may not cross it itself; systemd does it then, and `sub` is the same as for cgroup_open). */
int cgroup_move(const struct cgroup_ref *ref, const char *sub, int dirfd, pid_t pid, struct error *err);

/* Send a signal to every process in the cgroup and beneath. -ESRCH when there is none (or no cgroup). */
int cgroup_kill(const struct cgroup_ref *ref, int sig, struct error *err);

/* Stop, or continue, every process; freezing waits (10 s at most, then it is undone and -ETIMEDOUT) until the
 * kernel says that all are stopped. */
int cgroup_freeze(const struct cgroup_ref *ref, struct error *err);
int cgroup_thaw(const struct cgroup_ref *ref, struct error *err);
/* 1 when frozen (or on the way there), 0 when not or when there is no cgroup, negative errno. */
int cgroup_frozen(const struct cgroup_ref *ref);

/* All processes in the cgroup and beneath, in the arena, in no order. -ENOENT when the cgroup is gone. */
int cgroup_pids(struct arena *a, const struct cgroup_ref *ref, pid_t **pids, size_t *count,
                struct error *err);

/* Change the limits of a running container; what `resources` does not mention stays. Device rules, when there
 * are any, replace the earlier ones. */
int cgroup_update(struct arena *a, const struct cgroup_ref *ref, const struct spec_resources *resources,
                  struct error *err);

/* The "data" object of `events --stats` (cpu, memory, pids, blkio, hugetlb): as one JSON value. Controllers
 * that are not there are left out. */
int cgroup_stats(const struct cgroup_ref *ref, struct json_out *out, struct error *err);

/* Descriptor that becomes readable when the kernel's memory events of the cgroup change or the cgroup goes
 * away: inotify(7) on memory.events; -ENOENT without memory controller. */
int cgroup_oom_watch(const struct cgroup_ref *ref, struct error *err);
/* Number of processes the kernel has killed in the cgroup for want of memory. 0 or negative errno. */
int cgroup_oom_kills(const struct cgroup_ref *ref, uint64_t *count);

#endif
