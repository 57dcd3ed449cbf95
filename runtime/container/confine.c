/* See confine.h. The process is a child that becomes the program by execve(2). The runtime stays its parent.
 */
#include "container/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "base/sys.h"
#include "cgroup/cgroup.h"
#include "container/child/program_lookup.h"
#include "container/child/signals.h"
#include "container/options.h"
#include "container/plan.h"
#include "container/process.h"
#include "container/record.h"
#include "container/status_file.h"
#include "container/wait.h"
#include "spec/annotations.h"
#include "spec/spec.h"

/* The exit code of a process that did not become its program, as of a shell. */
#define NOT_STARTED 127

static bool has_hooks(const struct spec_hooks *hooks)
{
    return hooks->prestart.count + hooks->create_runtime.count + hooks->create_container.count +
               hooks->start_container.count + hooks->poststart.count + hooks->poststop.count >
           0;
}

/* Refuse what would be left out. A configuration that names it relies on it. */
static int refuse_containers(const struct spec *spec, struct error *err)
{
    const struct spec_linux *l = spec->linux_;
    const struct {
        bool set;
        const char *name;
    } properties[] = {
        {spec->hostname != NULL || spec->domainname != NULL, "hostname"},
        {spec->mounts.count > 0, "mounts"},
        {has_hooks(&spec->hooks), "hooks"},
        {l->namespaces.count > 0, "linux.namespaces"},
        {l->uid_mappings.count + l->gid_mappings.count > 0, "linux.uidMappings"},
        {l->devices.count > 0, "linux.devices"},
        {l->net_devices.count > 0, "linux.netDevices"},
        {l->cgroups_path != NULL, "linux.cgroupsPath"},
        {l->resources != NULL, "linux.resources"},
        {l->sysctl.count > 0, "linux.sysctl"},
        {l->masked_paths.count > 0, "linux.maskedPaths"},
        {l->readonly_paths.count > 0, "linux.readonlyPaths"},
        {l->mount_label != NULL, "linux.mountLabel"},
        {l->rootfs_propagation != NULL, "linux.rootfsPropagation"},
    };
    for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++)
        if (properties[i].set)
            return error_text(err, -EINVAL, "%s: only a container has it, and 'confine' makes none",
                              properties[i].name);
    return 0;
}

/* Refuse a process that nothing would hold. */
static int check_barriers(const struct process_plan *plan, struct error *err)
{
    const struct caps_plan *caps = &plan->caps;
    if (!plan->credentials.no_new_privs)
        return error_text(err, -EINVAL, "process.noNewPrivileges: must be true without a container");
    if ((caps->bounding | caps->effective | caps->permitted | caps->inheritable | caps->ambient) != 0)
        return error_text(err, -EINVAL, "process.capabilities: must be empty without a container");
    if (plan->process->terminal)
        return error_text(err, -EINVAL, "process.terminal: only a container has one");
    if (plan->seccomp.filter == NULL || plan->seccomp.notify)
        return error_text(err, -EINVAL,
                          "linux.seccomp: a filter without a listener is needed without a container");
    if (!plan->landlock.wanted)
        return error_text(err, -EINVAL, "annotation '%s': needed without a container", LANDLOCK_ANNOTATION);
    if (!landlock_active(&plan->landlock))
        return error_text(
            err, -ENOTSUP,
            "there is no Landlock, which is needed without a container: Linux 5.13 or later, with "
            "'landlock' in its list of security modules (lsm= of the boot command line)");
    if (geteuid() != 0 && (plan->credentials.uid != geteuid() || plan->credentials.gid != getegid()))
        return error_text(err, -EPERM, "process.user: only root can choose another user than its own");
    return 0;
}

static int confine_make_plan(struct arena *a, const struct runtime_options *rt,
                             const struct confine_options *options, struct process_plan *plan,
                             struct error *err)
{
    const struct create_options of_bundle = {.bundle = options->bundle, .config = options->config};
    struct plan_source source;
    int ret = plan_read(a, &of_bundle, &source, err);
    if (ret < 0)
        return ret;
    const struct spec *spec = source.spec;
    if (spec->process == NULL)
        return error_text(err, -EINVAL, "process: missing");
    ret = refuse_containers(spec, err);
    if (ret < 0)
        return ret;
    cleanup_fd int root = record_open_root(record_root(a, rt->root), true, err);
    if (root < 0)
        return root;
    const struct seccomp_context filter = {.state_dir = root, .version = rt->version};
    const struct process_context context = {
        .spec = spec,
        .linux_ = spec->linux_,
        .landlock = spec_annotation(spec, LANDLOCK_ANNOTATION),
        .filter = &filter,
        /* An ordinary user cannot leave its groups. Root's are left below. */
        .keep_groups = geteuid() != 0,
    };
    ret = process_plan(a, spec->process, &context, plan, err);
    return ret < 0 ? ret : check_barriers(plan, err);
}

/* Give up the privilege that the caller may have, and set the limits. */
static int lose_privilege(struct process_plan *plan, struct error *err)
{
    /* The processes of an ordinary user count together. Root's program has a user of its own. */
    int ret = plan->credentials.uid == geteuid() ? rlimits_count_from_now(&plan->rlimits, err) : 0;
    if (ret == 0)
        ret = rlimits_apply(&plan->rlimits, err);
    if (ret < 0)
        return ret;
    /* Without CAP_SETPCAP the bounding set stays. It matters only to programs with capabilities of their own,
     * to which no_new_privs gives none. */
    ret = caps_apply_before_uid(&plan->caps, err);
    if (ret == -EPERM)
        ret = 0;
    if (ret == 0)
        ret = credentials_apply(&plan->credentials, err);
    if (ret == 0)
        ret = caps_apply_after_uid(&plan->caps, err);
    /* Here, because the change of identity clears it. The runtime has one thread, so its end is meant. */
    if (ret == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        ret = error_set(err, -errno, "prctl PR_SET_PDEATHSIG");
    return ret;
}

static int confine_become(struct process_plan *plan, pid_t parent, struct error *err)
{
    struct process_program program = {0};
    signals_reset();
    if (setsid() < 0)
        return error_set(err, -errno, "setsid");
    int ret = process_prepare(plan, &program, err);
    if (ret == 0)
        ret = lose_privilege(plan, err);
    if (ret == 0 && getppid() != parent)
        ret = error_text(err, -ESRCH, "the runtime has ended");
    if (ret == 0 && program.look_again)
        ret = program_find(plan->cwd, plan->argv[0], plan->search_path, program.path, err);
    if (ret < 0)
        return ret;
    process_close_descriptors(plan, NULL, 0);
    ret = process_confine(plan, NULL, err);
    return ret < 0 ? ret : process_execute(plan, program.path, err);
}

/* Kill the children of this process. An orphan becomes one, because the runtime is a subreaper. */
static void kill_children(void)
{
    cleanup_fd int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    char text[4096];
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    text[n > 0 ? n : 0] = '\0';
    char *end = text;
    for (char *s = text; (n = strtol(s, &end, 10)) > 0 && end > s; s = end)
        if (*end != '\0') /* a number at the end may be cut */
            (void)kill((pid_t)n, SIGKILL);
}

/* Kill everything that the process has left. A filter that refuses setsid(2) and setpgid(2) keeps all of it
 * in one process group, so that the first signal reaches it before it can fork again. */
static void end_session(pid_t pid)
{
    (void)kill(-pid, SIGKILL);
    for (;;) {
        pid_t one = waitpid(-1, NULL, WNOHANG);
        if (one < 0)
            return;
        if (one > 0)
            continue;
        kill_children();
        poll(NULL, 0, 1);
    }
}

/* Return whether a signal has come that asks programs to end. */
static bool is_asked_to_end(int signals)
{
    struct signalfd_siginfo info;
    bool asked = false;
    while (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        asked = asked || info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT || info.ssi_signo == SIGHUP ||
                info.ssi_signo == SIGQUIT;
    return asked;
}

/* Reap the orphans that have ended. Return 1 if the process has ended, which is not reaped, and 0 otherwise.
 */
static int reap_others(pid_t pid)
{
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
            return -errno;
        if (info.si_pid == 0 || info.si_pid == pid)
            return info.si_pid == pid;
        RETRY(waitpid(info.si_pid, NULL, 0));
    }
}

/* Wait for the end of the process, but do not reap it: its number stays that of its process group. */
static int await_end(pid_t pid, int signals, int status_file, struct error *err)
{
    struct pollfd watched[] = {{.fd = signals, .events = POLLIN}, {.fd = status_file, .events = 0}};
    for (;;) {
        int ret = reap_others(pid);
        if (ret < 0)
            return error_set(err, ret, "wait for the process");
        if (ret > 0)
            return 0;
        if (poll(watched, 2, -1) < 0 && errno != EINTR)
            return error_set(err, -errno, "wait for the process");
        bool unread = (watched[1].revents & (POLLERR | POLLHUP)) != 0;
        if (unread)
            watched[1].fd = -1;
        if (is_asked_to_end(signals) || unread)
            (void)kill(-pid, SIGKILL);
    }
}

static int confine_attend(pid_t pid, const sigset_t *set, int status_file, int *status, struct error *err)
{
    cleanup_fd int signals = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
    int ret =
        signals < 0 ? error_set(err, -errno, "watch the process") : await_end(pid, signals, status_file, err);
    (void)kill(-pid, SIGKILL);
    RETRY(waitpid(pid, status, 0));
    end_session(pid);
    if (ret == 0 && status_file >= 0) {
        const struct cgroup_ref none = {.manager = CGROUP_MANAGER_DISABLED, .path = ""};
        ret = status_file_write(status_file, *status, &none, err);
    }
    return ret;
}

int confine_run(const struct runtime_options *rt, const struct confine_options *options, int *exit_code,
                struct error *err)
{
    cleanup_arena struct arena a = {0};
    struct process_plan plan;
    struct wait_signals before = WAIT_SIGNALS_NONE;
    sigset_t set;
    int status = 0;
    cleanup_fd int status_file = status_file_open(options->status_file, err);
    if (options->status_file != NULL && status_file < 0)
        return status_file;
    int ret = confine_make_plan(&a, rt, options, &plan, err);
    if (ret < 0) {
        status_file_error(status_file, err);
        return ret;
    }
    wait_block_signals(&before);
    sigprocmask(SIG_SETMASK, NULL, &set);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        struct error own = {0};
        confine_become(&plan, parent, &own);
        log_stderr(own.text);
        status_file_error(status_file, &own);
        _exit(NOT_STARTED);
    }
    /* Only the process may hold its own end of the caller's socket open: its end is read there. */
    if (pid > 0)
        for (int fd = STDIN_FILENO; fd <= STDOUT_FILENO; fd++)
            close(fd);
    ret = pid < 0 ? error_set(err, -errno, "fork") : confine_attend(pid, &set, status_file, &status, err);
    wait_restore_signals(&before);
    *exit_code = wait_exit_code(status);
    return ret;
}
