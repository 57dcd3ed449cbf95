/* Clone the init and serve it: the steps of the runtime in contrib/docs/pages/inside/processes.md, "create".
 * A failure is undone in create.c. */
#include "container/spawn.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/json_out.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/sys.h"
#include "container/child/finish.h"
#include "container/child/init.h"
#include "container/creation.h"
#include "container/hooks.h"
#include "container/launch.h"
#include "container/options.h"
#include "container/pid_file.h"
#include "container/status_file.h"
#include "container/sync.h"
#include "container/tracing.h"
#include "container/wait.h"
#include "sandbox/detach.h"
#include "sandbox/net/loopback.h"
#include "sandbox/oom.h"
#include "sandbox/seccomp/notify.h"

/* Send a message to the child. It is no error if the child has ended: its reason can still be read from the
 * socket. */
static int tell_child(const struct creation *c, enum sync_message message, struct error *err)
{
    int ret = sync_send(c->sync, message);
    return ret == 0 || ret == -EPIPE ? 0 : error_set(err, ret, "send to the container's first process");
}

static bool child_waits(const struct plan *plan)
{
    return plan->idmap.active || plan->netdev.count > 0;
}

static bool has_scope(const struct plan *plan)
{
    return plan->cgroup->ref.manager == CGROUP_MANAGER_SYSTEMD;
}

/* Ask systemd for the scope, if there is one, and take the steps that the child waits for at its
 * beginning. */
static int let_child_begin(struct creation *c, pid_t pid, struct cgroup_job **job, struct error *err)
{
    struct plan *plan = &c->plan;
    int ret = idmap_write(&plan->idmap, pid, err);
    if (ret < 0)
        return ret;
    log_step("map ids", NULL);
    ret = cgroup_attach_begin(plan->cgroup, pid, job, err);
    if (ret < 0)
        return ret;
    if (plan->netdev.count > 0) {
        ret = netdev_apply(&plan->netdev, c->pidfd, err);
        if (ret < 0)
            return ret;
    }
    return child_waits(plan) ? tell_child(c, SYNC_MAPPED, err) : 0;
}

/* Wait until the child, which mounts meanwhile, is in its scope. The job is freed even if an earlier step
 * failed with `ret`. */
static int finish_scope(struct creation *c, struct cgroup_job *job, int ret, struct error *err)
{
    if (job == NULL)
        return ret;
    int finished = cgroup_attach_finish(job, c->scope_path, ret < 0 ? NULL : err);
    /* A scope that already exists is another container's. */
    if (finished != -EEXIST) {
        int noted = record_own_cgroup(c->dir, c->plan.id, ret < 0 || finished < 0 ? NULL : err);
        if (finished == 0)
            finished = noted;
    }
    if (ret < 0 || finished < 0)
        return ret < 0 ? ret : finished;
    c->record.cgroup.path = c->scope_path;
    log_step("join scope", c->scope_path);
    return tell_child(c, SYNC_SCOPE, err);
}

static int make_network(struct creation *c, struct error *err)
{
    if (!c->plan.namespaces.network_overlapped)
        return 0;
    int ret = namespaces_make_network(&c->plan.namespaces, err);
    if (ret < 0)
        return ret;
    ret = tell_child(c, SYNC_NETWORK, err);
    if (ret == 0)
        ret = loopback_up(err);
    log_step("make network namespace", NULL);
    return ret;
}

static bool has_runtime_hooks(const struct plan *plan)
{
    return plan->spec->hooks.prestart.count + plan->spec->hooks.create_runtime.count > 0;
}

static int write_state_file(struct creation *c, const char *name, const void *data, size_t size,
                            struct error *err)
{
    int ret = io_create_file_at(c->dir, name, data, size, 0600);
    return ret < 0 ? record_write_error(c->dir, ret, name, c->plan.id, err) : 0;
}

/* Write what later commands need besides the record. */
static int write_copies(struct creation *c, struct error *err)
{
    const struct plan *plan = &c->plan;
    const struct seccomp_plan *filter = &plan->process.seccomp;
    int ret = write_state_file(c, RECORD_CONFIG, plan->config, plan->config_size, err);
    if (ret < 0 || !c->record.has_seccomp)
        return ret;
    return write_state_file(c, RECORD_SECCOMP, filter->filter, filter->count * sizeof(*filter->filter), err);
}

/* Take the steps up to the scope. The caller must finish `job` also after a failure. */
static int begin_child(struct creation *c, pid_t pid, struct cgroup_job **job, struct error *err)
{
    struct plan *plan = &c->plan;
    bool network_last = child_waits(plan) || has_scope(plan);
    int ret = network_last ? 0 : make_network(c, err);
    if (ret < 0)
        return ret;
    /* Set this before the child becomes root of a user namespace: from then on the user does not own its
     * /proc files. */
    ret = plan->has_process ? oom_apply(plan->process.process, pid, err) : 0;
    if (ret < 0)
        return ret;
    ret = let_child_begin(c, pid, job, err);
    return ret < 0 || !network_last ? ret : make_network(c, err);
}

/* Take the steps of the runtime while the child mounts, beginning with those that the child waits for. */
static int serve_child(struct creation *c, pid_t pid, struct error *err)
{
    struct cgroup_job *job = NULL;
    int ret = begin_child(c, pid, &job, err);
    ret = finish_scope(c, job, ret, err);
    if (ret < 0)
        return ret;
    ret = cgroup_load_devices(c->plan.cgroup, &c->devices, err);
    if (ret < 0)
        return ret;
    struct proc_stat stat;
    ret = proc_read_stat(pid, &stat);
    if (ret < 0)
        return error_set(err, ret, "read the start time of process %d", (int)pid);
    c->record.start_time = stat.start_time;
    ret = write_copies(c, err);
    log_step("write copies of the configuration", c->plan.id);
    return ret;
}

static int run_runtime_hooks(struct creation *c, pid_t pid, struct error *err)
{
    const struct spec_hooks *hooks = &c->plan.spec->hooks;
    /* Prestart hooks once ran at start. The validation suite and other runtimes still give them the status
     * "created". */
    struct hook_run run = {.kind = "prestart", .status = "created", .pid = pid, .cwd = c->plan.bundle};
    int ret = hooks_run(&hooks->prestart, &run, &c->record, err);
    run.kind = "createRuntime";
    run.status = "creating";
    return ret < 0 ? ret : hooks_run(&hooks->create_runtime, &run, &c->record, err);
}

static bool has_message(const struct creation *c)
{
    struct pollfd p = {.fd = c->sync, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

/* If the child failed, the steps of the runtime fail as well. Report the reason of the child, which is more
 * precise. */
static int prefer_reason_of_child(const struct creation *c, int ret, struct error *err)
{
    struct error reason = {0};
    if (!has_message(c) || sync_receive(c->sync, &reason) != SYNC_ERROR)
        return ret;
    *err = reason;
    return reason.code;
}

static void write_creating_state(struct json_out *out, const void *arg)
{
    const struct creation *c = arg;
    record_write_state(&c->record, "creating", c->record.pid, false, out);
}

static int spawn_pass_listener(struct creation *c, struct seccomp_handover *handover, struct error *err)
{
    struct seccomp_receiver receiver = {.oci_version = c->record.oci_version,
                                        .pid = c->record.pid,
                                        .write_state = write_creating_state,
                                        .arg = c};
    return seccomp_notify_send(&c->plan.process.seccomp, handover, c->pidfd, &receiver, err);
}

static int take_listener(struct creation *c, struct seccomp_handover *handover, struct error *err)
{
    const struct launch *launch = c->plan.process.launch;
    return launch->filter != NULL ? launch->parent->listen(launch, handover, c->pidfd, err)
                                  : spawn_pass_listener(c, handover, err);
}

/* Return whether init has executed the program, without having said that it would. */
static bool has_executed(const struct creation *c)
{
    struct proc_stat stat;
    return c->record.executes && proc_read_stat(c->record.pid, &stat) == 0 && stat.executed;
}

/* Explain the end of a child that sent no message. It was killed, most likely by the OOM killer. */
static int spawn_explain_end(const struct creation *c, struct error *err)
{
    siginfo_t info = {0};
    uint64_t kills = 0;
    waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED | WNOWAIT);
    if (cgroup_oom_kills(&c->record.cgroup, &kills) == 0 && kills > 0)
        return error_text(
            err, -ENOMEM,
            "the container's first process was OOM-killed: linux.resources.memory.limit may be too low");
    if (info.si_code == CLD_EXITED)
        return error_text(err, -ECONNRESET,
                          "the container's first process ended with status %d before it was ready",
                          info.si_status);
    return error_text(err, -ECONNRESET,
                      "the container's first process was killed by signal %d before it was ready",
                      info.si_status);
}

/* The steps of the runtime that precede the program. */
struct progress {
    bool hooks_ran; /* true also if there are none */
    bool verified, on_record, let_go;
    bool started; /* of run: the program may run */
};

static int tell_pid(const struct creation *c, const struct create_options *options, struct error *err)
{
    int ret = options->pid_file != NULL ? pid_file_write(options->pid_file, c->record.pid, err) : 0;
    return ret == 0 && c->pidfd_socket >= 0 ? pid_file_send(c->pidfd_socket, c->pidfd, err) : ret;
}

/* Put the container on record. For run, its status is still "creating" then: until init has entered its root,
 * exec would find the root of the host. If init executes the program unasked, this is the last step. */
static int put_on_record(struct creation *c, const struct create_options *options, struct progress *progress,
                         struct error *err)
{
    progress->on_record = true;
    c->record.complete = c->goal == CREATION_WAITS;
    int ret = record_write(c->dir, &c->record, err);
    log_step("complete record", c->plan.id);
    return ret == 0 && (c->goal == CREATION_WAITS || c->record.executes) ? tell_pid(c, options, err) : ret;
}

/* Take the steps that init has not asked for. These are the long check of files, while no message has
 * arrived, and at the end the order to go on until the program is next. It is sent before init asks, so that
 * init does not wait for the runtime to wake up. */
static int advance(struct creation *c, struct progress *progress, struct error *err)
{
    int ret = 0;
    if (progress->hooks_ran && !progress->verified && !has_message(c)) {
        progress->verified = true;
        ret = launch_verify(c->plan.process.launch, c->sync, err);
        log_step("compare files of the snapshot", NULL);
    }
    if (ret == 0 && progress->on_record && progress->verified && !progress->let_go) {
        progress->let_go = true;
        ret = tell_child(c, c->record.executes ? SYNC_START : SYNC_COMMIT, err);
    }
    /* Not before the record says that the program runs: when it prints anything, other commands find it. */
    if (ret == 0 && c->goal == CREATION_RUNS && progress->let_go && c->record.complete &&
        !progress->started) {
        progress->started = true;
        ret = tell_child(c, SYNC_START, err);
    }
    return ret;
}

/* Serve init's requests until it waits for start, or has executed the program. */
static int follow_child(struct creation *c, const struct create_options *options,
                        struct seccomp_handover *handover, struct error *err)
{
    bool ready = false, runs = c->goal == CREATION_RUNS;
    struct progress progress = {.hooks_ran = !has_runtime_hooks(&c->plan),
                                .verified = c->plan.process.launch->parent->verify == NULL};
    int ret = 0;
    if (!progress.verified)
        sched_yield(); /* let the child run, if it waits for this CPU: it is about to ask */
    if (runs && progress.hooks_ran && c->devices < 0)
        ret = put_on_record(c, options, &progress, err);
    while (ret == 0 && (ret = advance(c, &progress, err)) == 0) {
        ret = launch_serve(c->plan.process.launch, c->sync, err);
        if (ret < 0)
            return ret;
        int message = options->compare_fd != 0 ? sync_receive_root(c->sync, &c->inside, err)
                                               : sync_receive(c->sync, err);
        switch (message) {
        case SYNC_DEVICES:
            ret = cgroup_confine(&c->record.cgroup, c->devices, err);
            log_step("restrict devices", c->record.cgroup.path);
            /* systemd removes the cgroup as soon as a child that failed has ended. */
            if (ret < 0)
                ret = prefer_reason_of_child(c, ret, err);
            if (ret == 0 && runs && progress.hooks_ran)
                ret = put_on_record(c, options, &progress, err);
            break;
        case SYNC_HOOKS:
            ret = run_runtime_hooks(c, c->record.pid, err);
            log_step("run hooks of the runtime", NULL);
            progress.hooks_ran = true;
            if (ret == 0)
                ret = tell_child(c, SYNC_HOOKS_RAN, err);
            if (ret == 0 && runs)
                ret = put_on_record(c, options, &progress, err);
            break;
        case SYNC_LISTENER:
            ret = take_listener(c, handover, err);
            break;
        case SYNC_ROOT:
            break;
        case SYNC_READY:
            ready = true;
            if (c->goal == CREATION_WAITS) {
                ret = put_on_record(c, options, &progress, err);
                return ret < 0 ? ret : advance(c, &progress, err);
            }
            c->record.complete = true;
            ret = write_state_file(c, RECORD_STARTING, "", 0, err);
            if (ret == 0)
                ret = record_write(c->dir, &c->record, err);
            if (ret == 0)
                ret = tell_pid(c, options, err);
            break;
        case SYNC_COLD:
            status_file_cold(c->status_file, err->kind, err->text);
            launch_refused(c->plan.process.launch, err);
            *err = (struct error){0};
            fd_close(&c->inside); /* no snapshot is in use */
            break;
        case SYNC_ERROR:
            return err->code;
        case SYNC_END:
            if (ready)
                (void)unlinkat(c->dir, RECORD_STARTING, 0);
            return ready || has_executed(c) ? 0 : spawn_explain_end(c, err);
        default:
            return message < 0 ? message : error_text(err, -EPROTO, "unexpected message %d", message);
        }
    }
    return ret;
}

/* Clone init. Return 0 in the child. */
static pid_t clone_init(struct creation *c, int cgroup_fd, struct error *err)
{
    const int shared = CLONE_NEWUSER | CLONE_NEWPID;
    struct namespaces_plan *plan = &c->plan.namespaces;
    if ((plan->join & shared) != shared)
        return namespaces_clone(plan, cgroup_fd, &c->pidfd, err);
    struct nondumpable before;
    nondumpable_begin(&before, c->plan.process.process);
    pid_t pid = namespaces_clone(plan, cgroup_fd, &c->pidfd, err);
    if (pid != 0)
        nondumpable_end(&before);
    return pid;
}

static int give_stdio(struct creation *c, bool foreground, struct error *err)
{
    const struct plan *plan = &c->plan;
    bool mapped = plan->idmap.active || (plan->namespaces.join & CLONE_NEWUSER) != 0;
    if (!plan->has_process)
        return 0;
    return process_give_stdio(&plan->process, mapped ? c->record.pid : 0, c->pidfd,
                              foreground ? &c->loan : NULL, err);
}

int creation_spawn(struct creation *c, const struct create_options *options, int cgroup_fd, int start_socket,
                   struct seccomp_handover *handover, struct error *err)
{
    int sockets[2];
    const bool foreground = c->goal == CREATION_RUNS && !options->detach;
    /* The child must have the runtime's /proc open before it sees that of the container. */
    int ret = proc_root(err);
    if (ret >= 0)
        ret = first_prepare(&c->plan.process.first, foreground, err);
    if (ret >= 0)
        ret = sync_pair(sockets, err);
    if (ret < 0)
        return ret;
    c->sync = sockets[0];
    cleanup_fd int child_end = sockets[1];
    cleanup_fd int copy = detach_prepare();
    pid_t pid = clone_init(c, cgroup_fd, err);
    if (pid < 0)
        return pid;
    if (pid == 0) {
        fd_close(&c->sync);
        fd_close(&c->dir); /* and with it the lock, which belongs to the runtime */
        fd_close(&c->root);
        struct init_context context = {.plan = &c->plan,
                                       .record = &c->record,
                                       .handover = handover,
                                       .copy = copy,
                                       .sync = child_end,
                                       .start_socket = start_socket,
                                       .wait_first = child_waits(&c->plan),
                                       .wait_scope = has_scope(&c->plan),
                                       .compared = options->compare_fd != 0};
        init_main(&context);
    }
    fd_close(&child_end);
    c->record.pid = pid;
    log_step("clone first process", NULL);
    ret = serve_child(c, pid, err);
    if (ret == 0)
        ret = give_stdio(c, foreground, err);
    detach_fill(&copy);
    return ret < 0 ? prefer_reason_of_child(c, ret, err) : follow_child(c, options, handover, err);
}
