/* The launch with a second filter, whose listener the runtime serves. */
#include "prewarm/observed.h"

#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>

#include "base/error.h"
#include "base/fd.h"
#include "container/execve.h"
#include "container/process.h"
#include "container/sync.h"
#include "sandbox/seccomp/notify.h"

/* In the child: load the observer's filter. From here until execve this process makes no observed system
 * call. */
static int observed_arm(struct process_plan *plan, struct seccomp_handover *handover, int channel,
                        struct error *err)
{
    const struct seccomp_plan *filter = plan->launch->filter;
    /* Without this, the runtime of a user could not take the listener. The container has no other process. */
    if (prctl(PR_SET_DUMPABLE, 1) < 0)
        return error_set(err, -errno, "let the runtime look at the probe");
    int ret = sync_send(channel, SYNC_LISTENER);
    if (ret < 0)
        return error_set(err, ret, "send to the runtime");
    ret = seccomp_install(filter, handover, err);
    if (ret != -EACCES)
        return ret;
    /* The process lacks the capability that replaces no_new_privs. A probe executes no program that would
     * gain a capability. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_set(err, -errno, "set no_new_privs");
    return seccomp_install(filter, handover, err);
}

static int observed_enter(struct process_plan *plan, struct seccomp_handover *handover, const char *program,
                          int channel, struct error *err)
{
    return launch_execve.child->enter(plan, handover, program, channel, err);
}

/* The Makefile names this: LAUNCHES. */
const struct launch_child observed_child = {.arm = observed_arm, .enter = observed_enter};

static int listen(const struct launch *launch, struct seccomp_handover *handover, int pidfd,
                  struct error *err)
{
    struct observed_program *o = launch->state;
    o->listener = seccomp_notify_take(handover, pidfd, err);
    return o->listener < 0 ? o->listener : observer_new(o->arena, o->listener, o->mode, &o->observer, err);
}

/* Serve the first system calls of the probe's program, until the channel has a message. The program already
 * runs before the end of the channel reports that. */
static int serve(const struct launch *launch, int channel, struct error *err)
{
    struct observed_program *o = launch->state;
    struct pollfd p[] = {{.fd = channel, .events = POLLIN}, {.fd = o->listener, .events = POLLIN}};
    while (o->observer != NULL) {
        if (RETRY(poll(p, 2, -1)) < 0)
            return error_set(err, -errno, "wait for the container's first process");
        if (p[0].revents != 0)
            return 0;
        int ret = observer_serve(o->observer, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static void observed_release(const struct launch *launch)
{
    struct observed_program *o = launch->state;
    fd_close(&o->listener);
}

static const struct launch_parent parent = {.listen = listen, .serve = serve, .release = observed_release};

void observed_launch(struct arena *a, struct observed_program *observed, struct process_plan *plan)
{
    observed->arena = a;
    observed->filter = (struct seccomp_plan){.notify = true, .origin = "observer"};
    observe_filter(a, observed->mode, &observed->filter.filter, &observed->filter.count);
    observed->launch = (struct launch){.child = &observed_child,
                                       .parent = &parent,
                                       .state = observed,
                                       .kept = {-1, -1, -1},
                                       .filter = &observed->filter};
    plan->launch = &observed->launch;
}

int observed_listener(const struct observed_program *observed)
{
    return observed->observer != NULL ? observed->listener : -1;
}

int observed_serve(struct observed_program *observed, struct error *err)
{
    return observer_serve(observed->observer, err);
}

void observed_stop(struct observed_program *observed, const char **data, size_t *size)
{
    observer_stop(observed->observer, data, size);
}
