/* Confinement and execve(2). */
#include "container/execve.h"

#include "base/error.h"
#include "container/process.h"
#include "container/sync.h"

/* Load a filter with a listener while the runtime still listens. */
static int execve_arm(struct process_plan *plan, struct seccomp_handover *handover, int channel,
                      struct error *err)
{
    if (!process_loads_early(plan))
        return 0;
    int ret = sync_send(channel, SYNC_LISTENER);
    return ret < 0 ? error_set(err, ret, "send to the runtime") : process_confine(plan, handover, err);
}

static int execve_enter(struct process_plan *plan, struct seccomp_handover *handover, const char *program,
                        int channel, struct error *err)
{
    (void)channel;
    int ret = process_confine(plan, handover, err);
    return ret < 0 ? ret : process_execute(plan, program, err);
}

static const struct launch_child child = {.arm = execve_arm, .enter = execve_enter};
static const struct launch_parent parent = {NULL};

const struct launch launch_execve = {.child = &child, .parent = &parent, .kept = {-1, -1, -1}};

int launch_enter(struct process_plan *plan, struct seccomp_handover *handover, const char *program,
                 int channel, struct error *err)
{
    const struct launch *launch = plan->launch;
    int ret = launch->child->enter(plan, handover, program, channel, err);
    if (!launch->fallback)
        return ret;
    sync_send_reason(channel, SYNC_COLD, err);
    plan->launch = &launch_execve;
    return execve_enter(plan, handover, program, channel, err);
}
