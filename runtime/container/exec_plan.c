/* Whether exec may enter a container, and with which properties. */
#include "container/exec_plan.h"

#include <errno.h>
#include <sched.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/libraries.h"
#include "base/str.h"
#include "container/lookup.h"
#include "container/pid_file.h"
#include "container/record_copies.h"
#include "container/tracing.h"
#include "sandbox/seccomp/notify.h"
#include "spec/annotations.h"

int exec_default_process(struct arena *a, const struct runtime_options *rt, const char *id,
                         struct spec_process **out, struct error *err)
{
    struct record record;
    struct spec *spec;
    cleanup_fd int dir = -1;
    int ret = container_open_record(a, rt, id, &dir, &record, err);
    if (ret < 0)
        return ret;
    if (record.pid == 0)
        return error_text(err, -ESRCH, "cannot exec in container '%s': it is creating: container not running",
                          id);
    ret = saved_spec(a, dir, &record, &spec, err);
    if (ret < 0)
        return ret;
    if (spec->process == NULL)
        return error_text(err, -EINVAL, "container '%s' has no process to take defaults from: use --process",
                          id);
    *out = spec->process;
    return 0;
}

static int exec_check_status(struct execution *x, struct error *err)
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

/* Refuse settings that a late clone does not support. */
static int check_late(const struct execution *x, struct error *err)
{
    if (!x->late)
        return 0;
    if (!sched_is_inherited(&x->plan.sched))
        return error_text(
            err, -ENOTSUP,
            "cannot exec in container '%s': its processes may trace others, so the process is "
            "cloned late, and process.scheduler would be lost ('%s', or with SCHED_FLAG_RESET_ON_FORK)",
            x->record.id, x->plan.sched.policy_name);
    if (x->plan.seccomp.notify)
        return error_text(err, -ENOTSUP,
                          "cannot exec in container '%s': its processes may trace others, and its filter has "
                          "a listener; give it a user namespace of its own, or take CAP_SYS_PTRACE away",
                          x->record.id);
    return 0;
}

/* Decide whether the process may enter the container, given the processes that are in it. */
static int plan_entry(struct execution *x, struct error *err)
{
    bool capable = tracing_capable(&x->plan.caps);
    int ret = tracing_check_exec(x->dir, &x->record, capable, err);
    return ret < 0 ? ret : tracing_enter(x->dir, &x->record, capable, &x->late, &x->lock, err);
}

static int exec_plan_all(struct execution *x, struct error *err)
{
    const struct exec_options *o = x->options;
    struct process_context context = {
        .user_namespace = (x->record.namespaces & CLONE_NEWUSER) != 0,
        .preserve_fds = o->preserve_fds,
        .listen_fds = o->listen_fds,
        .keyring = x->record.no_new_keyring ? NULL : x->record.id,
        .keep_groups = str_eq(str_map_get(&x->record.annotations, ANNOTATION_KEEP_GROUPS), "1"),
        .exec = true,
        .landlock = str_map_get(&x->record.annotations, LANDLOCK_ANNOTATION),
        .landlock_log = x->record.landlock_log,
    };
    /* A user's process may not move between the trees of two managers. systemd moves it (cgroups(7),
     * delegation). */
    const struct cgroup_ref *cgroup = &x->record.cgroup;
    int ret = cgroup->manager == CGROUP_MANAGER_SYSTEMD && cgroup->user_bus ? libraries_require(err) : 0;
    if (ret < 0)
        return ret;
    ret = spec_validate_process(o->process, err);
    if (ret < 0)
        return ret;
    if (x->record.has_process_settings) {
        struct spec *spec;
        ret = saved_spec(&x->arena, x->dir, &x->record, &spec, err);
        if (ret < 0)
            return ret;
        context.linux_ = spec->linux_;
    }
    ret = process_plan(&x->arena, o->process, &context, &x->plan, err);
    if (ret < 0)
        return ret;
    ret = plan_entry(x, err);
    if (ret < 0)
        return ret;
    ret = saved_seccomp(&x->arena, x->dir, &x->record, &x->plan.seccomp, err);
    if (ret < 0)
        return ret;
    ret = check_late(x, err);
    if (ret < 0)
        return ret;
    x->pidfd_socket = pid_file_connect(o->pidfd_socket, err);
    if (o->pidfd_socket != NULL && x->pidfd_socket < 0)
        return x->pidfd_socket;
    ret = terminal_plan(o->process, o->console_socket, !o->detach, &x->plan.terminal, err);
    return ret < 0 ? ret : seccomp_handover_new(&x->plan.seccomp, &x->handover, err);
}

int execution_plan(const struct runtime_options *rt, const struct exec_options *options,
                   struct execution *out, struct error *err)
{
    *out = (struct execution){.options = options,
                              .dir = -1,
                              .init = -1,
                              .pidfd = -1,
                              .pidfd_socket = -1,
                              .sync = -1,
                              .lock = -1,
                              .copy = -1,
                              .plan.terminal = TERMINAL_PLAN_NONE};
    int ret = container_open_record(&out->arena, rt, options->id, &out->dir, &out->record, err);
    if (ret < 0)
        return ret;
    ret = exec_check_status(out, err);
    return ret < 0 ? ret : exec_plan_all(out, err);
}

int execution_spec(struct execution *x, struct spec **out, struct error *err)
{
    int ret = saved_spec(&x->arena, x->dir, &x->record, out, err);
    if (ret == 0)
        (*out)->process = x->options->process;
    return ret;
}

void execution_release(struct execution *x)
{
    credentials_end_loan(&x->loan);
    terminal_release(&x->plan.terminal);
    launch_release(x->plan.launch);
    seccomp_handover_free(x->handover);
    fd_close(&x->sync);
    fd_close(&x->pidfd);
    fd_close(&x->pidfd_socket);
    fd_close(&x->init);
    fd_close(&x->lock);
    fd_close(&x->dir);
    arena_free(&x->arena);
}
