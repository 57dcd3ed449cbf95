/* Scheduling policy and cpu affinity: sched_setattr(2), sched_setaffinity(2), runtime-spec process.scheduler
 * and process.execCPUAffinity. */
#ifndef PYSBX_SANDBOX_SCHED_H
#define PYSBX_SANDBOX_SCHED_H

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

/* scheduler NULL: nothing to do. -EINVAL, by JSON path, for an unknown policy or flag. */
int sched_plan(const struct spec_scheduler *scheduler, struct sched_plan *out, struct error *err);
/* Does a clone of a process that has it have it as well? Not SCHED_DEADLINE, under which none can be made,
 * nor with SCHED_FLAG_RESET_ON_FORK (sched(7)). */
bool sched_is_inherited(const struct sched_plan *plan);
/* Child, while privileged and after the affinity is set: the kernel refuses SCHED_DEADLINE to a process with
 * an affinity of its own. */
int sched_apply(const struct sched_plan *plan, struct error *err);
/* A map of policy, nice value, priority, flags and times. */
void sched_describe(const struct sched_plan *plan, struct json_out *out);

struct sched_affinity_plan {
    struct bitlist initial, final;         /* empty: left as it is */
    const char *initial_list, *final_list; /* as they were given */
};

/* For `exec`. affinity NULL: nothing to do. */
int sched_affinity_plan(struct arena *a, const struct spec_cpu_affinity *affinity,
                        struct sched_affinity_plan *out, struct error *err);
/* Before the process is in the container's cgroup. */
int sched_apply_initial(const struct sched_affinity_plan *plan, struct error *err);
/* After it is there, before execve(2). */
int sched_apply_final(const struct sched_affinity_plan *plan, struct error *err);
/* A map of the two lists. */
void sched_affinity_describe(const struct sched_affinity_plan *plan, struct json_out *out);

#endif
