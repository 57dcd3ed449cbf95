/* What exec decides before it changes anything: may the container be entered, as what, and whether the
 * program starts warm. */
#include "container/exec_plan.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/libraries.h"
#include "container/saved.h"
#include "container/warm_start.h"
#include "container/watched.h"
#include "sandbox/seccomp/notify.h"
#include "spec/annotations.h"

int exec_default_process(struct arena *a, const struct runtime_options *rt, const char *id,
                         struct spec_process **out, struct error *err)
{
    struct record record;
    struct spec *spec;
    cleanup_fd int dir = -1;
    int ret = container_open_record(a, rt, id, &dir, &record, err);
    if (ret == 0 && !record.complete)
        return error_text(err, -ESRCH, "cannot exec in container '%s': it is creating: container not running",
                          id);
    if (ret == 0)
        ret = saved_spec(a, dir, &record, &spec, err);
    if (ret == 0 && spec->process == NULL)
        return error_text(err, -EINVAL, "container '%s' has no process to take defaults from: use --process",
                          id);
    if (ret == 0)
        *out = spec->process;
    return ret;
}

static int check_status(struct execution *x, struct error *err)
{
    enum status status = record_status(x->dir, &x->record);
    if (status == STATUS_PAUSED && !x->options->ignore_paused)
        return error_text(err, -EBUSY, "cannot exec in container '%s': it is paused", x->record.id);
    if (status == STATUS_STOPPED || status == STATUS_CREATING)
        return error_text(err, -ESRCH, "cannot exec in container '%s': it is %s: container not running",
                          x->record.id, status_name(status));
    x->init = record_pidfd(&x->record);
    return x->init < 0 ? error_text(err, x->init, "container not running: '%s'", x->record.id) : 0;
}

/* Until it is the program, the first process holds what it takes to confine itself, and nothing stands
 * between it and who may trace it. In a user namespace of the container's own nobody may: unseen.h. */
static int check_reach(const struct execution *x, struct error *err)
{
    if (!process_may_trace(&x->plan) ||
        (x->record.namespaces & (CLONE_NEWUSER | CLONE_NEWPID)) != CLONE_NEWPID)
        return 0;
    enum record_beginning begun = record_beginning(x->dir, &x->record);
    if (begun == RECORD_IS_PROGRAM)
        return 0;
    return error_text(err, -EBUSY,
                      "cannot exec in container '%s': it is %s, and with CAP_SYS_PTRACE the process could "
                      "trace its first one, which is not confined yet: %s",
                      x->record.id, begun == RECORD_WAITS ? "created" : "being started",
                      begun == RECORD_WAITS ? "start the container first" : "repeat it later");
}

static int plan(struct execution *x, struct error *err)
{
    const struct exec_options *o = x->options;
    const char *keep_groups = str_map_get(&x->record.annotations, ANNOTATION_KEEP_GROUPS);
    struct process_context context = {
        .user_namespace = (x->record.namespaces & CLONE_NEWUSER) != 0,
        .preserve_fds = o->preserve_fds,
        .listen_fds = o->listen_fds,
        .keyring = x->record.no_new_keyring ? NULL : x->record.id,
        .keep_groups = keep_groups != NULL && strcmp(keep_groups, "1") == 0,
        .exec = true,
        .landlock = str_map_get(&x->record.annotations, LANDLOCK_ANNOTATION),
        .landlock_log = x->record.landlock_log,
    };
    /* A user's process may not move between the trees of two managers: systemd does it (cgroups(7),
     * delegation). */
    const struct cgroup_ref *cgroup = &x->record.cgroup;
    int ret = cgroup->manager == CGROUP_MANAGER_SYSTEMD && cgroup->user_bus ? libraries_require(err) : 0;
    if (ret == 0)
        ret = spec_validate_process(o->process, err);
    if (ret == 0)
        ret = process_plan(&x->arena, o->process, &context, &x->plan, err);
    if (ret == 0)
        ret = check_reach(x, err);
    if (ret == 0)
        ret = watched_enter(x->dir, &x->record, process_may_trace(&x->plan), &x->apart, &x->lock, err);
    if (ret == 0)
        ret = saved_seccomp(&x->arena, x->dir, &x->record, &x->plan.seccomp, err);
    if (ret == 0)
        ret = terminal_plan(o->process, o->console_socket, !o->detach, &x->plan.terminal, err);
    if (ret == 0 && x->apart && !sched_is_inherited(&x->plan.sched))
        return error_text(
            err, -ENOTSUP,
            "cannot exec in container '%s': its processes may trace others, so the process is "
            "cloned late, and process.scheduler would be lost ('%s', or with SCHED_FLAG_RESET_ON_FORK)",
            x->record.id, x->plan.sched.policy_name);
    if (ret == 0 && x->apart && x->plan.seccomp.notify)
        return error_text(err, -ENOTSUP,
                          "cannot exec in container '%s': its processes may trace others, and its filter has "
                          "a listener; give it a user namespace of its own, or take CAP_SYS_PTRACE away",
                          x->record.id);
    if (ret == 0)
        ret = seccomp_handover_new(&x->plan.seccomp, &x->handover, err);
    return ret;
}

/* The container's own configuration tells what an interpreter would find. A pod's or an old container's may
 * be gone: then the program is executed. */
static int plan_warm(struct execution *x, const struct runtime_options *rt, struct error *err)
{
    struct spec *spec;
    struct plan *like = ARENA_NEW(&x->arena, struct plan);
    struct create_options options = {.id = x->record.id, .no_new_keyring = x->record.no_new_keyring};
    if (!warm_is_candidate(x->plan.argv[0]))
        return 0;
    int ret = saved_spec(&x->arena, x->dir, &x->record, &spec, err);
    if (ret < 0)
        return ret;
    spec->process = x->options->process;
    *like = (struct plan){.id = x->record.id,
                          .bundle = x->record.bundle,
                          .rootfs = x->record.rootfs,
                          .spec = spec,
                          .has_process = true,
                          .process = x->plan,
                          .namespaces.make = (int)x->record.namespaces};
    ret = warm_start_plan(&x->arena, rt, like, err);
    if (ret == 0 && x->apart && like->warm != NULL && like->warm->reason == NULL)
        like->warm->reason = "processes of the container may trace others (CAP_SYS_PTRACE)";
    if (ret == 0)
        ret = warm_start_prepare(&x->arena, rt, &options, like, err);
    x->warm = like->warm;
    x->plan.warm = like->process.warm;
    x->plan.warm_refusal = like->process.warm_refusal;
    return ret;
}

int execution_plan(struct execution *x, const struct runtime_options *rt, struct error *err)
{
    int ret = container_open_record(&x->arena, rt, x->options->id, &x->dir, &x->record, err);
    if (ret == 0)
        ret = check_status(x, err);
    if (ret == 0)
        ret = plan(x, err);
    return ret < 0 ? ret : plan_warm(x, rt, err);
}
