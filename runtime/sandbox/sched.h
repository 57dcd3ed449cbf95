/* Scheduling policy and CPU affinity: sched_setattr(2), sched_setaffinity(2), runtime-spec process.scheduler
 * and process.execCPUAffinity. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/bitlist.h"

struct arena;
struct error;
struct json_out;
struct spec_cpu_affinity;
struct spec_scheduler;

struct sched_plan {
    bool set;
    const char *policy_name;
    uint32_t policy, priority;
    int32_t nice;
    uint64_t flags, runtime, deadline, period; /* times in nanoseconds */
};

/* Plan the policy. scheduler NULL: there is nothing to do. Return 0, or -EINVAL with the JSON path for an
 * unknown policy or flag. */
int sched_plan(const struct spec_scheduler *scheduler, struct sched_plan *out, struct error *err);
/* True if a clone inherits the policy from its parent. A process under SCHED_DEADLINE cannot clone, and
 * SCHED_FLAG_RESET_ON_FORK forbids it (sched(7)). */
bool sched_is_inherited(const struct sched_plan *plan);
/* Child, while privileged and after the affinity is set: set the policy. The kernel refuses SCHED_DEADLINE to
 * a process that has a restricted affinity. Return 0 or a negative errno. */
int sched_apply(const struct sched_plan *plan, struct error *err);
/* Write a map of policy, nice value, priority, flags and times. */
void sched_describe(const struct sched_plan *plan, struct json_out *out);

struct sched_affinity_plan {
    struct bitlist initial, final; /* empty: no change */
};

/* `exec`: plan the affinity. affinity NULL: there is nothing to do. Return 0, or -EINVAL with the JSON path.
 */
int sched_affinity_plan(struct arena *a, const struct spec_cpu_affinity *affinity,
                        struct sched_affinity_plan *out, struct error *err);
/* Set the initial affinity, before the process enters the container's cgroup. Return 0 or a negative errno.
 */
int sched_apply_initial(const struct sched_affinity_plan *plan, struct error *err);
/* Set the final affinity, in the cgroup and before execve(2). Return 0 or a negative errno. */
int sched_apply_final(const struct sched_affinity_plan *plan, struct error *err);
