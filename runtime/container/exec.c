/* The clone, the steps of the child, and the steps of the runtime meanwhile. */
#include "container/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/json_out.h"
#include "base/libraries.h"
#include "base/sys.h"
#include "container/child/finish.h"
#include "container/child/late_clone.h"
#include "container/child/signals.h"
#include "container/launch.h"
#include "container/pid_file.h"
#include "container/sync.h"
#include "container/tracing.h"
#include "container/wait.h"
#include "sandbox/detach.h"
#include "sandbox/oom.h"
#include "sandbox/seccomp/notify.h"

/* In the child. */

/* Enter namespaces of the container's first process. The kernel permits that only to a process that may trace
 * the first one. Until the first one executes its program, capabilities over the container's user namespace
 * are not enough. 0 or a negative errno. */
static int exec_enter(const struct execution *x, int flags, const char *what, struct error *err)
{
    if (setns(x->init, flags) == 0)
        return 0;
    int ret = -errno;
    enum record_beginning begun = RECORD_IS_PROGRAM;
    if (ret == -EPERM && (x->record.namespaces & CLONE_NEWUSER) != 0) {
        begun = record_beginning(x->dir, &x->record);
        if (begun == RECORD_IS_PROGRAM && setns(x->init, flags) == 0)
            return 0; /* it has just become the program */
    }
    if (begun == RECORD_IS_PROGRAM)
        return error_set(err, ret, "enter the %s of container '%s'", what, x->record.id);
    bool waits = begun == RECORD_WAITS;
    return error_text(err, ret,
                      "cannot exec in container '%s': it is %s, and until it %s only root may enter its user "
                      "namespace: %s",
                      x->record.id, waits ? "created" : "being started",
                      waits ? "is started" : "executes its program",
                      waits ? "start the container first" : "repeat it later");
}

static int enter_container(const struct execution *x, struct error *err)
{
    /* As in the container's first process: the runtime of an ordinary user cannot do this afterwards. */
    (void)oom_apply(x->options->process, 0, NULL);
    /* Nothing in the container may trace or read this process while it is still the runtime. */
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return error_set(err, -errno, "prctl PR_SET_DUMPABLE");
    int flags = (int)x->record.namespaces & ~(x->late ? 0 : CLONE_NEWPID);
    cleanup_fd int root = -1;
    if (x->record.chrooted) {
        char path[48];
        snprintf(path, sizeof(path), "/proc/%d/root", (int)x->record.pid);
        root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
            return error_set(err, -errno, "open the root of container '%s'", x->record.id);
        /* The root was opened by the pid's number. It is the root of this process if the process still
         * exists. */
        if (sys_pidfd_send_signal(x->init, 0, NULL, 0) < 0 && errno == ESRCH)
            return error_text(err, -ESRCH, "container not running: '%s'", x->record.id);
    }
    int ret = flags != 0 ? exec_enter(x, flags, "namespaces", err) : 0;
    if (ret < 0)
        return ret;
    if (root >= 0 && (fchdir(root) < 0 || chroot(".") < 0))
        return error_set(err, -errno, "enter the root of container '%s'", x->record.id);
    if ((flags & CLONE_NEWUSER) != 0 && (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0) && errno != EINVAL)
        return error_set(err, -errno, "become root of the container's user namespace");
    if (setsid() < 0)
        return error_set(err, -errno, "setsid");
    return 0;
}

static int open_terminal(struct execution *x, struct error *err)
{
    if (!x->plan.terminal.wanted)
        return 0;
    cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int master = -1;
    cleanup_fd int slave = -1;
    if (root < 0)
        return error_set(err, -errno, "open the container's root");
    int ret = terminal_setup(&x->plan.terminal, root, x->plan.credentials.uid, false, &master, &slave, err);
    if (ret == 0)
        ret = terminal_send_master(x->plan.terminal.socket, master, err);
    if (ret < 0)
        return ret;
    return x->late ? terminal_place(fd_steal(&slave), err) : terminal_attach(fd_steal(&slave), err);
}

/* Overwrite the environment of the engine, which a late clone would otherwise inherit. */
static void forget_environment(void)
{
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++)
        explicit_bzero(*variable, strlen(*variable));
}

static int exec_prepare(struct execution *x, struct process_program *program, struct error *err)
{
    if (x->late)
        forget_environment();
    umask(0);
    signals_reset();
    if (sys_close_range(3 + x->options->preserve_fds, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
        return error_set(err, -errno, "mark descriptors to be closed");
    int ret = enter_container(x, err);
    if (ret == 0)
        ret = open_terminal(x, err);
    return ret < 0 ? ret : process_prepare(&x->plan, program, err);
}

static _Noreturn void child_main(struct execution *x, int sync)
{
    struct process_program program = {0};
    struct error err = {0};
    if (exec_prepare(x, &program, &err) < 0) {
        sync_send_error(sync, &err);
        _exit(1);
    }
    const struct exec_context context = {.plan = &x->plan,
                                         .handover = x->handover,
                                         .copy = x->copy,
                                         .sync = sync,
                                         .late = x->late,
                                         .arenas = {&x->arena, x->options->arena}};
    exec_finish(&context, &program);
}

/* In the runtime. */

static pid_t clone_child(struct execution *x, int cgroup_fd)
{
    struct clone_args args = {
        .flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&x->pidfd, .exit_signal = SIGCHLD};
    if (cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cgroup_fd;
    }
    return sys_clone3(&args, sizeof(args));
}

/* Let the runtime enter the pid namespace, so that its child is cloned into it. An unprivileged runtime
 * has that right from the user namespace, which it owns. Return 1 if it has entered the user namespace as
 * well. */
static int enter_pid_namespace(const struct execution *x, struct error *err)
{
    if ((x->record.namespaces & CLONE_NEWPID) == 0)
        return 0;
    if (setns(x->init, CLONE_NEWPID) == 0)
        return 0;
    if (errno != EPERM || (x->record.namespaces & CLONE_NEWUSER) == 0)
        return error_set(err, -errno, "enter the pid namespace of container '%s'", x->record.id);
    int ret = exec_enter(x, CLONE_NEWUSER | CLONE_NEWPID, "pid namespace", err);
    return ret < 0 ? ret : 1;
}

/* Clone into the container's cgroup, cgroup_fd, or if that is not possible into another one. Return 0 in the
 * child. */
static pid_t exec_clone_into(struct execution *x, int cgroup_fd, struct error *err)
{
    const struct cgroup_ref *ref = &x->record.cgroup;
    cleanup_fd int fallback = -1;
    pid_t pid = clone_child(x, cgroup_fd);
    if (pid < 0 && errno == EBUSY && x->options->cgroup == NULL) {
        cgroup_fd = fallback = cgroup_open_fallback(ref, x->record.pid, err);
        if (fallback < 0)
            return fallback;
        pid = clone_child(x, fallback);
    }
    if (pid < 0 && (errno == EACCES || errno == EPERM) && cgroup_fd >= 0) {
        /* The runtime may not enter the cgroup (a delegated tree of systemd). Its manager moves the
         * process. */
        pid = clone_child(x, -1);
        if (pid > 0 && cgroup_move(ref, x->options->cgroup, cgroup_fd, pid, err) < 0)
            return err->code;
    }
    return pid < 0 ? error_set(err, -errno, "clone a process in container '%s'", x->record.id) : pid;
}

/* Clone the child. Return 0 in the child. */
static pid_t exec_spawn(struct execution *x, struct error *err)
{
    cleanup_fd int cgroup_fd = -1;
    if (x->record.cgroup.manager != CGROUP_MANAGER_DISABLED) {
        cgroup_fd = cgroup_open(&x->record.cgroup, x->options->cgroup, err);
        /* Init was moved to another cgroup, and the empty one was removed. */
        if (cgroup_fd == -ENOENT && x->options->cgroup == NULL)
            cgroup_fd = cgroup_open_of(&x->record.cgroup, x->record.pid, err);
        if (cgroup_fd < 0)
            return cgroup_fd;
    }
    int entered = x->late ? 0 : enter_pid_namespace(x, err);
    if (entered < 0)
        return entered;
    if (entered == 0)
        return exec_clone_into(x, cgroup_fd, err);
    struct nondumpable before;
    x->record.namespaces &= ~(unsigned)CLONE_NEWUSER;
    nondumpable_begin(&before, x->options->process);
    pid_t pid = exec_clone_into(x, cgroup_fd, err);
    if (pid != 0)
        nondumpable_end(&before);
    return pid;
}

static void write_running_state(struct json_out *out, const void *arg)
{
    const struct execution *x = arg;
    record_write_state(&x->record, "running", x->record.pid, false, out);
}

static int exec_pass_listener(struct execution *x, struct error *err)
{
    struct seccomp_receiver receiver = {
        .oci_version = x->record.oci_version, .pid = x->pid, .write_state = write_running_state, .arg = x};
    return seccomp_notify_send(&x->plan.seccomp, x->handover, x->pidfd, &receiver, err);
}

static int exec_receive(struct execution *x, struct error *err)
{
    int message;
    while ((message = sync_receive(x->sync, err)) == SYNC_COLD && x->plan.launch->in_place)
        launch_refused(x->plan.launch, err);
    return message;
}

/* Apply the settings that a late clone inherits from the child. */
static int exec_settle(const struct execution *x, struct error *err)
{
    return oom_apply(x->options->process, x->pid, err);
}

static int exec_follow(struct execution *x, struct error *err)
{
    int message = exec_receive(x, err);
    if (message != SYNC_READY && message != SYNC_LISTENER)
        return sync_unexpected(message, err);
    int ret = exec_settle(x, err);
    if (ret < 0)
        return ret;
    if (x->late && (ret = late_clone_follow(x->sync, &x->pid, &x->pidfd, err)) < 0)
        return ret;
    if (x->options->pid_file != NULL && (ret = pid_file_write(x->options->pid_file, x->pid, err)) < 0)
        return ret;
    if (x->pidfd_socket >= 0 && (ret = pid_file_send(x->pidfd_socket, x->pidfd, err)) < 0)
        return ret;
    if (sync_send(x->sync, SYNC_PROCEED) < 0)
        return sync_unexpected(SYNC_END, err);
    if (message == SYNC_LISTENER && (ret = exec_pass_listener(x, err)) < 0)
        return ret;
    message = exec_receive(x, err);
    return message == SYNC_END ? 0 : sync_unexpected(message, err);
}

static void abandon(struct execution *x)
{
    siginfo_t info;
    if (x->pidfd < 0)
        return;
    sys_pidfd_send_signal(x->pidfd, SIGKILL, NULL, 0);
    RETRY(waitid(P_PIDFD, (id_t)x->pidfd, &info, WEXITED));
    if (x->options->pid_file != NULL)
        unlink(x->options->pid_file);
}

static int exec_run(struct execution *x, int *exit_code, struct error *err)
{
    int sockets[2];
    libraries_settle();
    int ret = sync_pair(sockets, err);
    if (ret < 0)
        return ret;
    x->sync = sockets[0];
    cleanup_fd int child_end = sockets[1];
    ret = sched_apply_initial(&x->plan.affinity, err);
    if (ret < 0)
        return ret;
    bool mapped = (x->record.namespaces & CLONE_NEWUSER) != 0;
    if (mapped && (ret = rlimits_raise(&x->plan.rlimits, err)) < 0)
        return ret;
    ret = process_give_stdio(&x->plan, mapped ? x->record.pid : 0, x->init,
                             x->options->detach ? NULL : &x->loan, err);
    if (ret < 0)
        return ret;
    x->copy = detach_prepare();
    x->pid = exec_spawn(x, err);
    if (x->pid == 0) {
        fd_close(&x->sync);
        child_main(x, child_end);
    }
    fd_close(&child_end);
    detach_fill(&x->copy);
    cleanup_fd int master = -1;
    ret = x->pid < 0 ? x->pid : exec_follow(x, err);
    fd_close(&x->lock); /* the process is the program now, or has ended */
    if (ret == 0 && x->plan.terminal.relay_socket >= 0) {
        master = terminal_receive_master(x->plan.terminal.relay_socket, err);
        ret = master < 0 ? master : 0;
    }
    if (ret < 0) {
        abandon(x);
        return ret;
    }
    if (x->options->detach)
        return 0;
    int status;
    ret = wait_for_process(x->pid, x->pidfd, master, NULL, &status, err);
    if (ret == 0)
        *exit_code = wait_exit_code(status);
    return ret;
}

int execution_run(struct execution *x, int *exit_code, struct error *err)
{
    struct wait_signals signals = WAIT_SIGNALS_NONE;
    if (!x->options->detach)
        wait_block_signals(&signals);
    int ret = exec_run(x, exit_code, err);
    wait_restore_signals(&signals);
    return ret;
}
