/* Set the scheduling policy and the CPU affinity. */
#include "sandbox/sched.h"

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json_out.h"
#include "base/str.h"
#include "sandbox/names.h"
#include "spec/spec.h"

/* The kernel's struct sched_attr, first version (48 bytes). glibc 2.41 and linux/sched/types.h both define it
 * and conflict, so neither is included. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

/* Numbers of linux/sched.h, which are kernel ABI. */
#define RESET_ON_FORK 0x01U

static const struct name_value policies[] = {
    {"SCHED_OTHER", 0}, {"SCHED_FIFO", 1},     {"SCHED_RR", 2},  {"SCHED_BATCH", 3},
    {"SCHED_IDLE", 5},  {"SCHED_DEADLINE", 6}, {"SCHED_ISO", 4}, {NULL, 0},
};

static const struct name_value flags[] = {
    {"SCHED_FLAG_RESET_ON_FORK", RESET_ON_FORK},
    {"SCHED_FLAG_RECLAIM", 0x02},
    {"SCHED_FLAG_DL_OVERRUN", 0x04},
    {"SCHED_FLAG_KEEP_POLICY", 0x08},
    {"SCHED_FLAG_KEEP_PARAMS", 0x10},
    {"SCHED_FLAG_UTIL_CLAMP_MIN", 0x20},
    {"SCHED_FLAG_UTIL_CLAMP_MAX", 0x40},
    {NULL, 0},
};

int sched_plan(const struct spec_scheduler *scheduler, struct sched_plan *out, struct error *err)
{
    *out = (struct sched_plan){0};
    if (scheduler == NULL || scheduler->policy == NULL)
        return 0;
    const struct name_value *policy = names_find(policies, scheduler->policy);
    if (policy == NULL)
        return error_set(err, -EINVAL, "process.scheduler.policy: unknown policy '%s'", scheduler->policy);
    *out = (struct sched_plan){
        .set = true,
        .policy_name = policy->name,
        .policy = (uint32_t)policy->value,
        .priority = (uint32_t)scheduler->priority.value,
        .nice = (int32_t)scheduler->nice.value,
        .runtime = scheduler->runtime.value,
        .deadline = scheduler->deadline.value,
        .period = scheduler->period.value,
    };
    for (size_t i = 0; i < scheduler->flags.count; i++) {
        const struct name_value *flag = names_find(flags, scheduler->flags.items[i]);
        if (flag == NULL)
            return error_set(err, -EINVAL, "process.scheduler.flags[%zu]: unknown flag '%s'", i,
                             scheduler->flags.items[i]);
        out->flags |= flag->value;
    }
    return 0;
}

bool sched_is_inherited(const struct sched_plan *plan)
{
    return !plan->set || (!str_eq(plan->policy_name, "SCHED_DEADLINE") && (plan->flags & RESET_ON_FORK) == 0);
}

int sched_apply(const struct sched_plan *plan, struct error *err)
{
    if (!plan->set)
        return 0;
    const struct attributes attributes = {
        .size = sizeof(attributes),
        .policy = plan->policy,
        .flags = plan->flags,
        .nice = plan->nice,
        .priority = plan->priority,
        .runtime = plan->runtime,
        .deadline = plan->deadline,
        .period = plan->period,
    };
    if (syscall(SYS_sched_setattr, 0, &attributes, 0) < 0)
        return error_text(err, -errno, "process.scheduler: set %s with nice %d, priority %u: %s",
                          plan->policy_name, plan->nice, plan->priority, error_reason(errno));
    return 0;
}

int sched_affinity_plan(struct arena *a, const struct spec_cpu_affinity *affinity,
                        struct sched_affinity_plan *out, struct error *err)
{
    *out = (struct sched_affinity_plan){0};
    if (affinity == NULL)
        return 0;
    if (affinity->initial != NULL && bitlist_parse(a, affinity->initial, &out->initial) < 0)
        return error_text(err, -EINVAL, "process.execCPUAffinity.initial: '%s' is not a list of CPUs",
                          affinity->initial);
    if (affinity->final != NULL && bitlist_parse(a, affinity->final, &out->final) < 0)
        return error_text(err, -EINVAL, "process.execCPUAffinity.final: '%s' is not a list of CPUs",
                          affinity->final);
    return 0;
}

static int sched_apply_affinity(const struct bitlist *cpus, const char *which, struct error *err)
{
    /* The raw call takes a mask of any length. cpu_set_t ends at 1024. */
    if (cpus->bits > 0 && syscall(SYS_sched_setaffinity, 0, cpus->bits / 8, cpus->words) < 0)
        return error_text(err, -errno, "process.execCPUAffinity.%s: %s", which,
                          errno == EINVAL ? "none of the CPUs is available" : error_reason(errno));
    return 0;
}

int sched_apply_initial(const struct sched_affinity_plan *plan, struct error *err)
{
    return sched_apply_affinity(&plan->initial, "initial", err);
}

int sched_apply_final(const struct sched_affinity_plan *plan, struct error *err)
{
    return sched_apply_affinity(&plan->final, "final", err);
}

void sched_describe(const struct sched_plan *plan, struct json_out *out)
{
    json_out_map_open(out);
    json_out_pair_string(out, "policy", plan->policy_name);
    json_out_pair_i64(out, "nice", plan->nice);
    json_out_pair_u64(out, "priority", plan->priority);
    json_out_key(out, "flags");
    json_out_array_open(out);
    for (const struct name_value *flag = flags; flag->name != NULL; flag++)
        if ((plan->flags & flag->value) != 0)
            json_out_string(out, flag->name);
    json_out_array_close(out);
    json_out_pair_u64(out, "runtime", plan->runtime);
    json_out_pair_u64(out, "deadline", plan->deadline);
    json_out_pair_u64(out, "period", plan->period);
    json_out_map_close(out);
}
