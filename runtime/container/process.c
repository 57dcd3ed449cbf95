/* The steps of a process in the container, up to execve. */
#include "container/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/proc.h"
#include "base/sys.h"
#include "container/child/passwd.h"
#include "container/child/program_lookup.h"
#include "container/launch.h"
#include "sandbox/detach.h"
#include "sandbox/idmap.h"
#include "sandbox/keyring.h"
#include "sandbox/seccomp/notify.h"

/* Return whether confinement needs CAP_SYS_ADMIN. Without no_new_privs, a filter and Landlock's rules need it
 * until they are in force (seccomp(2), landlock_restrict_self(2)). */
static bool confined_by_privilege(const struct process_plan *plan)
{
    return (plan->seccomp.filter != NULL || landlock_active(&plan->landlock)) &&
           !plan->credentials.no_new_privs;
}

/* Keep the effective capabilities that the last steps need in addition to the container's. */
static int hold_capabilities(const struct process_plan *plan, struct error *err)
{
    if (!confined_by_privilege(plan))
        return caps_apply_after_uid(&plan->caps, err);
    struct caps_plan held = plan->caps;
    held.permitted |= 1ULL << CAP_SYS_ADMIN;
    held.effective |= 1ULL << CAP_SYS_ADMIN;
    return caps_apply_after_uid(&held, err);
}

static int join_keyring(const struct process_plan *plan, struct error *err)
{
    if (plan->keyring == NULL)
        return 0;
    int ret = selinux_apply_keycreate(&plan->selinux, err);
    if (ret == 0)
        ret = keyring_join(plan->keyring, err);
    /* execve clears the label of new keys. A launch in place has to do it here. */
    return ret == 0 && plan->launch->in_place ? selinux_clear_keycreate(&plan->selinux, err) : ret;
}

/* Set the labels for execve(2), or only open the kernel's files. A label that is set but not used would come
 * into force when the program itself executes another one. It would also be the label of the minimal init,
 * which is executed from a file that no container may execute. */
static int apply_labels(struct process_plan *plan, struct error *err)
{
    bool open = plan->launch->in_place || plan->first.wanted;
    int ret = open ? selinux_open(&plan->selinux, err) : selinux_apply_exec(&plan->selinux, err);
    if (ret < 0)
        return ret;
    return open ? apparmor_open(&plan->apparmor, err) : apparmor_apply(&plan->apparmor, err);
}

bool process_labels_open(const struct process_plan *plan)
{
    return (plan->selinux.label != NULL && plan->selinux.exec.fd >= 0) ||
           (plan->apparmor.profile != NULL && plan->apparmor.exec.fd >= 0);
}

int process_reopen_labels(const struct process_plan *plan, struct error *err)
{
    const struct attribute *all[] = {&plan->selinux.exec, &plan->selinux.current, &plan->apparmor.exec,
                                     &plan->apparmor.current};
    int ret = 0;
    for (size_t i = 0; ret == 0 && i < sizeof(all) / sizeof(all[0]); i++)
        ret = attribute_reopen(all[i], err);
    return ret;
}

static int apply_privileged(struct process_plan *plan, struct error *err)
{
    int ret = credentials_give_stdio(plan->credentials.uid, NULL, err);
    if (ret == 0)
        ret = join_keyring(plan, err);
    if (ret == 0)
        ret = mempolicy_apply(&plan->mempolicy, err);
    if (ret == 0)
        ret = sched_apply_final(&plan->affinity, err);
    if (ret == 0)
        ret = sched_apply(&plan->sched, err);
    if (ret == 0)
        ret = ioprio_apply(&plan->ioprio, err);
    if (ret == 0)
        ret = personality_apply(&plan->personality, err);
    if (ret == 0)
        ret = apply_labels(plan, err);
    if (ret == 0)
        ret = landlock_prepare(&plan->landlock, err);
    return ret;
}

/* Look for directory and program with the runtime's credentials. If that was refused, do it again as the
 * container's user: on a file system that squashes root only the user may see them. */
static int process_look_up(const struct process_plan *plan, struct process_program *program,
                           struct error *err)
{
    int ret = program_find(plan->cwd, plan->argv[0], plan->search_path, program->path, err);
    program->look_again = ret == -EACCES;
    return program->look_again ? 0 : ret;
}

int process_give_stdio(const struct process_plan *plan, pid_t mapped, int pidfd, struct stdio_loan *loan,
                       struct error *err)
{
    if (plan->terminal.wanted || (mapped == 0 && loan == NULL))
        return 0;
    int64_t uid = plan->credentials.uid;
    if (mapped != 0)
        uid = idmap_of_process(mapped, plan->credentials.uid);
    /* The map was read by the pid's number. It is that of the process if the process still exists. */
    if (uid < 0 || sys_pidfd_send_signal(pidfd, 0, NULL, 0) < 0)
        return 0;
    return credentials_give_stdio((uid_t)uid, loan, err);
}

int process_prepare(struct process_plan *plan, struct process_program *program, struct error *err)
{
    static char home[PATH_MAX + sizeof("HOME=")];
    int ret = apply_privileged(plan, err);
    if (ret < 0)
        return ret;
    if (plan->home_missing) {
        ret = home_variable(plan->credentials.uid, home, sizeof(home), err);
        if (ret < 0)
            return ret;
        plan->envp[plan->home_slot] = home;
    }
    return process_look_up(plan, program, err);
}

int process_become(struct process_plan *plan, int copy, struct process_program *program, struct error *err)
{
    /* Do this before the identity changes, because it needs privilege in the user namespace. */
    cleanup_fd int exe = plan->launch->in_place ? proc_open_regular(program->path) : -1;
    int ret = detach_from_binary(copy, exe, err);
    if (ret == 0)
        ret = rlimits_apply(&plan->rlimits, err);
    if (ret == 0)
        ret = caps_apply_before_uid(&plan->caps, err);
    if (ret == 0)
        ret = credentials_apply(&plan->credentials, err);
    if (ret == 0)
        ret = hold_capabilities(plan, err);
    if (ret == 0 && program->look_again)
        ret = program_find(plan->cwd, plan->argv[0], plan->search_path, program->path, err);
    /* Set this here, because the change of identity clears it. */
    if (ret == 0 && plan->die_with_runtime && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        ret = error_set(err, -errno, "prctl PR_SET_PDEATHSIG");
    return ret;
}

/* The kernel's default for fs.nr_open: no descriptor has a higher number. */
#define MAX_DESCRIPTOR 1048576U

/* Descriptors that process_close_descriptors can keep: the caller's, and those of the launch. */
#define MAX_KEPT 9

/* Return the lowest descriptor from `first` on that has to stay open, or ~0U if there is none. It is one of
 * `keep`, or belongs to confinement that is not in force yet: Landlock's rules or labels. */
static unsigned process_next_kept(const struct process_plan *plan, const int *keep, size_t count,
                                  unsigned first)
{
    const int own[] = {plan->landlock.ruleset, plan->selinux.exec.fd, plan->selinux.current.fd,
                       plan->apparmor.exec.fd, plan->apparmor.current.fd};
    unsigned next = ~0U;
    for (size_t i = 0; i < count + sizeof(own) / sizeof(own[0]); i++) {
        int fd = i < count ? keep[i] : own[i - count];
        if (fd >= 0 && (unsigned)fd >= first && (unsigned)fd < next)
            next = (unsigned)fd;
    }
    return next;
}

static void close_all_but(const struct process_plan *plan, const int *keep, size_t count)
{
    unsigned first = plan->preserve_fds < MAX_DESCRIPTOR ? 3 + plan->preserve_fds : MAX_DESCRIPTOR;
    /* A number that is passed on but was not open may be a descriptor of the runtime now. */
    for (int fd = 3; fd < (int)first; fd++)
        if (process_next_kept(plan, keep, count, (unsigned)fd) != (unsigned)fd &&
            fcntl(fd, F_GETFD) == FD_CLOEXEC)
            close(fd);
    for (;;) {
        unsigned next = process_next_kept(plan, keep, count, first);
        if (next > first)
            (void)sys_close_range(first, next - (next != ~0U), 0);
        if (next == ~0U)
            return;
        first = next + 1;
    }
}

void process_close_descriptors(const struct process_plan *plan, const int *keep, size_t count)
{
    int all[MAX_KEPT];
    size_t n = 0;
    for (; n < count && n < MAX_KEPT - LAUNCH_KEPT; n++)
        all[n] = keep[n];
    for (size_t i = 0; i < LAUNCH_KEPT; i++)
        all[n++] = plan->launch->kept[i];
    close_all_but(plan, all, n);
}

bool process_loads_early(const struct process_plan *plan)
{
    return plan->seccomp.notify;
}

int process_confine(struct process_plan *plan, struct seccomp_handover *handover, struct error *err)
{
    int ret = credentials_apply_no_new_privs(&plan->credentials, err);
    if (ret == 0)
        ret = selinux_apply_opened(&plan->selinux, err);
    if (ret == 0)
        ret = apparmor_apply_opened(&plan->apparmor, err);
    if (ret == 0)
        ret = landlock_apply(&plan->landlock, err);
    if (ret == 0)
        ret = seccomp_install(&plan->seccomp, handover, err);
    if (ret == 0 && confined_by_privilege(plan))
        ret = caps_apply_after_uid(&plan->caps, err);
    return ret;
}

int process_confine_hook(struct process_plan *plan, struct error *err)
{
    const int none[] = {-1};
    int ret = process_reopen_labels(plan, err);
    close_all_but(plan, none, 1);
    return ret < 0 ? ret : process_confine(plan, NULL, err);
}

int process_execute(const struct process_plan *plan, const char *program, struct error *err)
{
    execve(program, plan->argv, plan->envp);
    int reason = errno;
    /* The file existed when it was looked up, so its interpreter is missing. */
    if (reason == ENOENT && access(program, F_OK) == 0)
        return error_text(err, -reason, "exec `%s`: its interpreter or dynamic loader is missing: %s",
                          program, error_engine_reason(reason));
    return error_text(err, -reason, "exec `%s`: %s", program, error_engine_reason(reason));
}
