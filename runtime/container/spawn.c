/* The init is cloned, and the runtime does for it what it cannot do itself, in the order that the README's
 * "Parent and child" has. What fails here is undone by create.c. */
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
#include "base/proc.h"
#include "base/sys.h"
#include "container/create.h"
#include "container/hooks.h"
#include "container/init.h"
#include "container/pid_file.h"
#include "container/sync.h"
#include "container/unseen.h"
#include "container/warm_start.h"
#include "sandbox/detach.h"
#include "sandbox/net/loopback.h"
#include "sandbox/oom.h"
#include "sandbox/seccomp/notify.h"

/* A child that is gone is no error here: why it went is still to be read from the socket. */
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

/* systemd is asked for the scope, if there is to be one; and what the child waits for before it does
 * anything.
 */
static int let_child_begin(struct creation *c, pid_t pid, struct cgroup_job **job, struct error *err)
{
    struct plan *plan = &c->plan;
    int ret = idmap_write(&plan->idmap, pid, err);
    if (ret == 0)
        ret = cgroup_attach_begin(plan->cgroup, pid, job, err);
    if (ret == 0 && plan->netdev.count > 0)
        ret = netdev_apply(&plan->netdev, c->pidfd, err);
    return ret == 0 && child_waits(plan) ? tell_child(c, SYNC_GO, err) : ret;
}

/* The child, which has mounted meanwhile, into its scope. Also after a failure, `ret`: the job is to be
 * freed.
 */
static int finish_scope(struct creation *c, struct cgroup_job *job, int ret, struct error *err)
{
    if (job == NULL)
        return ret;
    char path[PATH_MAX];
    int finished = cgroup_attach_finish(job, path, ret < 0 ? NULL : err);
    c->owns_cgroup |= finished != -EEXIST;
    if (ret < 0 || finished < 0)
        return ret < 0 ? ret : finished;
    c->record.cgroup.path = arena_strdup(&c->arena, path);
    return tell_child(c, SYNC_GO, err);
}

static int make_network(struct creation *c, struct error *err)
{
    if (!c->plan.namespaces.network_aside)
        return 0;
    int ret = namespaces_make_network(&c->plan.namespaces, err);
    if (ret == 0)
        ret = tell_child(c, SYNC_GO, err);
    return ret < 0 ? ret : loopback_up(err);
}

static bool has_runtime_hooks(const struct plan *plan)
{
    return plan->spec->hooks.prestart.count + plan->spec->hooks.create_runtime.count > 0;
}

static int write_state_file(struct creation *c, const char *name, const void *data, size_t size,
                            struct error *err)
{
    int ret = io_create_file_at(c->dir, name, data, size, 0600);
    return ret < 0 ? error_set(err, ret, "write '%s' of container '%s'", name, c->plan.id) : 0;
}

/* What later commands need besides the record. */
static int write_copies(struct creation *c, struct error *err)
{
    const struct plan *plan = &c->plan;
    const struct seccomp_plan *filter = &plan->process.seccomp;
    int ret = write_state_file(c, RECORD_CONFIG, plan->config, plan->config_size, err);
    if (ret == 0 && c->record.has_seccomp)
        ret =
            write_state_file(c, RECORD_SECCOMP, filter->filter, filter->count * sizeof(*filter->filter), err);
    return ret;
}

/* The runtime's part in the container's set-up, while the child mounts: first what the child waits for. */
static int serve_child(struct creation *c, pid_t pid, struct error *err)
{
    struct plan *plan = &c->plan;
    struct cgroup_job *job = NULL;
    bool first = child_waits(plan) || has_scope(plan);
    int ret = first ? 0 : make_network(c, err);
    /* Before the child becomes root of a user namespace: from then on its /proc files are not the user's. */
    if (ret == 0 && plan->has_process)
        ret = oom_apply(plan->process.process, pid, err);
    if (ret == 0)
        ret = let_child_begin(c, pid, &job, err);
    if (ret == 0 && first)
        ret = make_network(c, err);
    ret = finish_scope(c, job, ret, err);
    if (ret == 0)
        ret = cgroup_load_devices(plan->cgroup, &c->devices, err);
    if (ret == 0 && (ret = proc_start_time(pid, &c->record.start_time, NULL)) < 0)
        return error_set(err, ret, "read the start time of process %d", (int)pid);
    if (ret == 0 && plan->intelrdt.group != NULL) {
        cleanup_fd int root = intelrdt_open(err);
        ret = root < 0 ? root : intelrdt_create(&plan->intelrdt, root, pid, &c->record.rdt_made, err);
    }
    return ret < 0 ? ret : write_copies(c, err);
}

static int run_runtime_hooks(struct creation *c, pid_t pid, struct error *err)
{
    const struct spec_hooks *hooks = &c->plan.spec->hooks;
    /* What prestart hooks read is from a time when they ran at start: they are told "created" by the
     * validation suite's and other runtimes' tradition. */
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

/* A child that fails takes the runtime's steps with it: its own reason says more than theirs. */
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

static int pass_listener(struct creation *c, struct seccomp_handover *handover, struct error *err)
{
    struct seccomp_receiver receiver = {.oci_version = c->record.oci_version,
                                        .pid = c->record.pid,
                                        .write_state = write_creating_state,
                                        .arg = c};
    return seccomp_notify_send(&c->plan.process.seccomp, handover, c->pidfd, &receiver, err);
}

static int begin_to_observe(struct creation *c, enum observe_mode mode, struct seccomp_handover *handover,
                            struct error *err)
{
    c->listener = seccomp_notify_take(handover, c->pidfd, err);
    return c->listener < 0 ? c->listener : observer_new(&c->arena, c->listener, mode, &c->observer, err);
}

/* The program of a probe is executed, and its first system calls are answered, before the end of the channel
 * says so. */
static int observe_until_message(struct creation *c, struct error *err)
{
    struct pollfd p[] = {{.fd = c->sync, .events = POLLIN}, {.fd = c->listener, .events = POLLIN}};
    int ret = 0;
    while (ret == 0 && c->observer != NULL) {
        if (RETRY(poll(p, 2, -1)) < 0)
            return error_set(err, -errno, "wait for the container's first process");
        if (p[0].revents != 0)
            return 0;
        ret = observer_serve(c->observer, err);
    }
    return ret;
}

/* A child that ends without a message was killed. The most likely reason is the OOM killer. */
static int explain_end(const struct creation *c, struct error *err)
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

/* How far the runtime is with what the init waits for before it goes on to the program. */
struct progress {
    bool hooks_ran; /* or there are none */
    bool verified, on_record, let_go;
};

/* Put the container on record. One that runs is still being created then: until it has entered its root, exec
 * would find the host's. */
static int put_on_record(struct creation *c, const struct create_options *options, struct progress *progress,
                         struct error *err)
{
    progress->on_record = true;
    c->record.complete = c->goal == CREATION_WAITS;
    int ret = record_write(c->dir, &c->record, err);
    return ret == 0 && options->pid_file != NULL ? pid_file_write(options->pid_file, c->record.pid, err)
                                                 : ret;
}

/* What can be done without being asked: the long look at files when nothing is asked for, and when all is
 * done, let the init go: to wait for start, or on to the program. Both messages can be sent before the init
 * asks, so that it need not wait for the runtime to wake up. */
static int advance(struct creation *c, struct progress *progress, struct error *err)
{
    int ret = 0;
    if (progress->hooks_ran && !progress->verified && !has_message(c)) {
        progress->verified = true;
        ret = warm_start_verify(&c->arena, &c->plan, c->sync, err);
    }
    if (ret < 0 || !progress->on_record || !progress->verified || progress->let_go)
        return ret;
    progress->let_go = true;
    ret = tell_child(c, SYNC_COMMIT, err);
    return ret == 0 && c->goal == CREATION_RUNS ? tell_child(c, SYNC_START, err) : ret;
}

/* Serve the init's requests until it waits for start, or has executed the program. */
static int follow_child(struct creation *c, const struct create_options *options,
                        struct seccomp_handover *handover, struct error *err)
{
    bool ready = false, runs = c->goal == CREATION_RUNS;
    struct progress progress = {.hooks_ran = !has_runtime_hooks(&c->plan),
                                .verified = c->plan.process.warm == NULL};
    int ret = 0;
    if (!progress.verified)
        sched_yield(); /* to the child, if it waits for this processor: it is about to ask */
    if (runs && progress.hooks_ran && c->devices < 0)
        ret = put_on_record(c, options, &progress, err);
    while (ret == 0 && (ret = advance(c, &progress, err)) == 0) {
        ret = observe_until_message(c, err);
        if (ret < 0)
            return ret;
        int message = sync_receive(c->sync, err);
        switch (message) {
        case SYNC_DEVICES:
            ret = cgroup_confine(&c->record.cgroup, c->devices, err);
            /* systemd takes the cgroup away as soon as a child that failed has ended. */
            if (ret < 0)
                ret = prefer_reason_of_child(c, ret, err);
            if (ret == 0 && runs && progress.hooks_ran)
                ret = put_on_record(c, options, &progress, err);
            break;
        case SYNC_HOOKS:
            ret = run_runtime_hooks(c, c->record.pid, err);
            progress.hooks_ran = true;
            if (ret == 0)
                ret = tell_child(c, SYNC_GO, err);
            if (ret == 0 && runs)
                ret = put_on_record(c, options, &progress, err);
            break;
        case SYNC_LISTENER:
            ret = options->observe != OBSERVE_NOT ? begin_to_observe(c, options->observe, handover, err)
                                                  : pass_listener(c, handover, err);
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
            break;
        case SYNC_COLD:
            warm_start_refused(c->plan.warm, err);
            *err = (struct error){0};
            break;
        case SYNC_ERROR:
            return err->code;
        case SYNC_END:
            (void)unlinkat(c->dir, RECORD_STARTING, 0);
            return ready ? 0 : explain_end(c, err);
        default:
            return message < 0 ? message : error_text(err, -EPROTO, "unexpected message %d", message);
        }
    }
    return ret;
}

/* May the runtime give up its own network namespace? Not when programs are still to run in it, or devices to
 * leave it. */
static bool gives_network_up(const struct plan *plan)
{
    const struct spec_hooks *hooks = &plan->spec->hooks;
    return !has_runtime_hooks(plan) && hooks->poststart.count == 0 && hooks->poststop.count == 0 &&
           plan->netdev.count == 0;
}

/* 0 in the child. */
static pid_t clone_init(struct creation *c, int cgroup_fd, struct error *err)
{
    const int shared = CLONE_NEWUSER | CLONE_NEWPID;
    struct namespaces_plan *plan = &c->plan.namespaces;
    if ((plan->join & shared) != shared)
        return namespaces_clone(plan, cgroup_fd, &c->pidfd, err);
    struct unseen unseen;
    unseen_begin(&unseen, c->plan.process.process);
    pid_t pid = namespaces_clone(plan, cgroup_fd, &c->pidfd, err);
    if (pid != 0)
        unseen_end(&unseen);
    return pid;
}

int creation_spawn(struct creation *c, const struct create_options *options, int cgroup_fd, int start_socket,
                   struct seccomp_handover *handover, struct error *err)
{
    int sockets[2];
    /* The child is to have it open before it sees the container's. */
    int ret = proc_root(err);
    if (ret >= 0)
        ret = sync_pair(sockets, err);
    if (ret < 0)
        return ret;
    c->sync = sockets[0];
    cleanup_fd int child_end = sockets[1];
    if (gives_network_up(&c->plan) && (ret = namespaces_put_network_aside(&c->plan.namespaces, err)) < 0)
        return ret;
    cleanup_fd int copy = detach_prepare();
    pid_t pid = clone_init(c, cgroup_fd, err);
    if (pid < 0)
        return pid;
    if (pid == 0) {
        fd_close(&c->sync);
        fd_close(&c->dir); /* and with it the lock, which is the runtime's */
        fd_close(&c->root);
        struct init_context context = {.plan = &c->plan,
                                       .record = &c->record,
                                       .handover = handover,
                                       .copy = copy,
                                       .sync = child_end,
                                       .start_socket = start_socket,
                                       .wait_first = child_waits(&c->plan),
                                       .wait_scope = has_scope(&c->plan)};
        init_main(&context);
    }
    fd_close(&child_end);
    c->record.pid = pid;
    ret = serve_child(c, pid, err);
    detach_fill(&copy);
    return ret < 0 ? prefer_reason_of_child(c, ret, err) : follow_child(c, options, handover, err);
}
