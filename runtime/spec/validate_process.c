/* The process object (config.md, "Process") of a container or of exec. */
#include "spec/validate.h"

#include <errno.h>
#include <inttypes.h>

#include "base/error.h"
#include "base/str.h"
#include "spec/spec.h"

static int validate_program(const struct spec_process *p, struct error *err)
{
    if (p->args.count == 0)
        return error_set(err, -EINVAL, "process.args: at least one argument is needed");
    if (p->cwd == NULL)
        return error_set(err, -EINVAL, "process: 'cwd' is missing");
    if (p->cwd[0] != '/')
        return error_set(err, -EINVAL, "process.cwd: '%s' is not an absolute path", p->cwd);
    if (p->apparmor_profile != NULL && has_control_character(p->apparmor_profile))
        return error_set(err, -EINVAL, "process.apparmorProfile: contains a control character");
    if (p->selinux_label != NULL && has_control_character(p->selinux_label))
        return error_set(err, -EINVAL, "process.selinuxLabel: contains a control character");
    return 0;
}

static int validate_rlimits(const struct spec_rlimits *rlimits, struct error *err)
{
    for (size_t i = 0; i < rlimits->count; i++) {
        const struct spec_rlimit *r = &rlimits->items[i];
        for (size_t j = 0; j < i; j++)
            if (str_eq(rlimits->items[j].type, r->type))
                return error_set(err, -EINVAL, "process.rlimits[%zu]: '%s' is given twice", i, r->type);
        if (r->soft > r->hard)
            return error_set(err, -EINVAL,
                             "process.rlimits[%zu].soft: %" PRIu64 " is above the hard limit %" PRIu64, i,
                             r->soft, r->hard);
    }
    return 0;
}

static bool given(struct opt_i64 number)
{
    return number.set && number.value != 0;
}

static bool given_time(struct opt_u64 time)
{
    return time.set && time.value != 0;
}

/* sched_setattr(2) says which numbers belong to which policy. The kernel ignores a nice value that has no
 * meaning for the policy, and refuses such a priority. */
static int validate_scheduler(const struct spec_scheduler *s, struct error *err)
{
    if (s == NULL)
        return 0;
    bool realtime = str_eq(s->policy, "SCHED_FIFO") || str_eq(s->policy, "SCHED_RR");
    bool deadline = str_eq(s->policy, "SCHED_DEADLINE");
    if (given(s->priority) && !realtime)
        return error_set(err, -EINVAL, "process.scheduler.priority: has no meaning for %s", s->policy);
    if (realtime && !given(s->priority))
        return error_set(err, -EINVAL, "process.scheduler.priority: %s needs a priority from 1 to 99",
                         s->policy);
    if (!deadline && (given_time(s->runtime) || given_time(s->deadline) || given_time(s->period)))
        return error_set(err, -EINVAL,
                         "process.scheduler: runtime, deadline and period have no meaning for %s", s->policy);
    if (!deadline)
        return 0;
    if (!given_time(s->runtime) || !given_time(s->deadline) || s->runtime.value > s->deadline.value ||
        (given_time(s->period) && s->deadline.value > s->period.value))
        return error_set(err, -EINVAL,
                         "process.scheduler: SCHED_DEADLINE needs 0 < runtime <= deadline <= period");
    return 0;
}

static int validate_cpu_list(const char *list, const char *name, struct error *err)
{
    if (list == NULL || is_number_list(list))
        return 0;
    return error_set(err, -EINVAL, "process.execCPUAffinity.%s: '%s' is not a list of CPUs such as \"0-3,7\"",
                     name, list);
}

static int validate_affinity(const struct spec_cpu_affinity *affinity, struct error *err)
{
    if (affinity == NULL)
        return 0;
    int ret = validate_cpu_list(affinity->initial, "initial", err);
    return ret < 0 ? ret : validate_cpu_list(affinity->final, "final", err);
}

int validate_process(const struct spec_process *process, struct error *err)
{
    int ret = validate_program(process, err);
    if (ret < 0)
        return ret;
    ret = validate_rlimits(&process->rlimits, err);
    if (ret < 0)
        return ret;
    ret = validate_scheduler(process->scheduler, err);
    if (ret < 0)
        return ret;
    return validate_affinity(process->exec_cpu_affinity, err);
}
