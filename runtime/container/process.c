/* The process object: from its properties to execve. */
#include "container/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/json_out.h"
#include "base/path.h"
#include "base/str.h"
#include "base/sys.h"
#include "container/home.h"
#include "container/sync.h"
#include "container/warm_start.h"
#include "sandbox/detach.h"
#include "sandbox/keyring.h"
#include "sandbox/seccomp_notify.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static const char *env_value(const struct str_list *env, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < env->count; i++)
        if (strncmp(env->items[i], name, len) == 0 && env->items[i][len] == '=')
            return env->items[i] + len + 1;
    return NULL;
}

/* The environment with a free place for HOME when it is not there, and LISTEN_FDS for socket activation. */
static void plan_environment(struct arena *a, const struct spec_process *process, unsigned listen_fds,
                             struct process_plan *out)
{
    const struct str_list *env = &process->env;
    char **envp = ARENA_ARRAY(a, env->count + 4, char *);
    size_t count = 0;
    for (; count < env->count; count++)
        envp[count] = (char *)(uintptr_t)env->items[count];
    if (listen_fds > 0 && env_value(env, "LISTEN_FDS") == NULL) {
        envp[count++] = arena_printf(a, "LISTEN_FDS=%u", listen_fds);
        if (env_value(env, "LISTEN_PID") == NULL)
            envp[count++] = arena_strdup(a, "LISTEN_PID=1");
    }
    out->home_missing = env_value(env, "HOME") == NULL;
    out->home_slot = count;
    out->envp = envp;
    const char *path = env_value(env, "PATH");
    out->search_path = path != NULL ? path : DEFAULT_PATH;
}

static int plan_linux(struct arena *a, const struct spec *spec, struct process_plan *out, struct error *err)
{
    int ret = mempolicy_plan(a, spec->linux_->memory_policy, &out->mempolicy, err);
    return ret < 0 ? ret : personality_plan(spec->linux_->personality, &out->personality, err);
}

int process_plan(struct arena *a, const struct spec_process *process, const struct process_context *context,
                 struct process_plan *out, struct error *err)
{
    *out = (struct process_plan){.process = process,
                                 .preserve_fds = context->preserve_fds,
                                 .keyring = context->keyring,
                                 .cwd = process->cwd,
                                 .terminal = TERMINAL_PLAN_NONE};
    char **argv = ARENA_ARRAY(a, process->args.count + 1, char *);
    for (size_t i = 0; i < process->args.count; i++)
        argv[i] = (char *)(uintptr_t)process->args.items[i];
    out->argv = argv;
    plan_environment(a, process, context->listen_fds, out);
    int ret = caps_plan(process, context->user_namespace, &out->caps, err);
    struct identity_options options = {.keep_groups = context->keep_groups, .keep_caps = true};
    if (ret == 0)
        ret = identity_plan(a, process, &options, &out->identity, err);
    if (ret == 0)
        ret = rlimits_plan(a, &process->rlimits, &out->rlimits, err);
    if (ret == 0)
        ret = selinux_plan(process->selinux_label, &out->selinux, err);
    if (ret == 0)
        ret = apparmor_plan(a, process->apparmor_profile, &out->apparmor, err);
    if (ret == 0)
        ret = sched_plan(process->scheduler, &out->sched, err);
    if (ret == 0)
        ret = ioprio_plan(process->io_priority, &out->ioprio, err);
    if (ret == 0 && context->exec)
        ret = sched_affinity_plan(a, process->exec_cpu_affinity, &out->affinity, err);
    if (ret == 0 && context->spec != NULL)
        ret = plan_linux(a, context->spec, out, err);
    if (ret == 0)
        ret = landlock_plan(a, context->landlock, context->landlock != NULL ? landlock_abi() : 0,
                            &out->landlock, err);
    if (ret == 0 && context->landlock_allow != NULL)
        landlock_plan_allow(a, context->landlock_allow, &out->landlock);
    return ret;
}

/* Without no_new_privs, a filter and Landlock's rules need CAP_SYS_ADMIN until they are in force (seccomp(2),
 * landlock_restrict_self(2)). */
static bool confined_by_privilege(const struct process_plan *plan)
{
    return (plan->seccomp.filter != NULL || landlock_active(&plan->landlock)) && !plan->identity.no_new_privs;
}

enum lookup { LOOKUP_FOUND, LOOKUP_MISSING, LOOKUP_REFUSED };

/* Is there a program at this path? The kernel decides at execve; this is for the message at create. */
static enum lookup try_program(const char *path, int *reason)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        *reason = errno;
        return errno == ENOENT || errno == ENOTDIR ? LOOKUP_MISSING : LOOKUP_REFUSED;
    }
    *reason = S_ISDIR(st.st_mode) ? EISDIR : EACCES;
    if (!S_ISREG(st.st_mode))
        return LOOKUP_REFUSED;
    if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0) {
        *reason = errno;
        return LOOKUP_REFUSED;
    }
    return LOOKUP_FOUND;
}

/* Each directory of PATH in turn, as execvp(3) does; a program that may not be executed counts when no other
 * is found. */
static enum lookup search_program(const char *name, const char *search_path, char program[static PATH_MAX],
                                  int *reason)
{
    enum lookup result = LOOKUP_MISSING;
    *reason = ENOENT;
    for (const char *p = search_path; p != NULL; p = strchr(p, ':'), p += p != NULL) {
        int len = (int)strcspn(p, ":");
        char candidate[PATH_MAX];
        int n = snprintf(candidate, sizeof(candidate), "%.*s%s%s", len > 0 ? len : 1, len > 0 ? p : ".", "/",
                         name);
        if (n < 0 || (size_t)n >= sizeof(candidate))
            continue;
        int why;
        enum lookup found = try_program(candidate, &why);
        if (found == LOOKUP_MISSING || (found == LOOKUP_REFUSED && result == LOOKUP_REFUSED))
            continue;
        memcpy(program, candidate, (size_t)n + 1);
        *reason = why;
        result = found;
        if (found == LOOKUP_FOUND)
            break;
    }
    return result;
}

/* Engines read these texts (facts of Podman: libpod/oci_util.go): 127 for a program that is not there, 126
 * for one that cannot be executed. */
static int find_program(const struct process_plan *plan, char program[static PATH_MAX], struct error *err)
{
    const char *name = plan->argv[0];
    int reason = ENOENT;
    enum lookup found;
    if (strchr(name, '/') != NULL) {
        size_t length = strlen(name);
        if (length >= PATH_MAX)
            return error_text(err, -ENAMETOOLONG, "open executable '%.64s…': %s", name,
                              strerror(ENAMETOOLONG));
        memcpy(program, name, length + 1);
        found = try_program(name, &reason);
    } else {
        found = name[0] == '\0' ? LOOKUP_MISSING : search_program(name, plan->search_path, program, &reason);
    }
    if (found == LOOKUP_FOUND)
        return 0;
    if (found == LOOKUP_MISSING)
        return error_text(err, -ENOENT, "executable file `%s` not found%s: %s", name,
                          strchr(name, '/') != NULL ? "" : " in $PATH", strerror(ENOENT));
    return error_text(err, -EACCES, "open executable `%s`: %s%s", program,
                      reason == EISDIR ? "is a directory: " : "",
                      strerror(reason == EISDIR ? EACCES : reason));
}

/* The directory must lie in the container: one that was entered through a descriptor of the host shows as
 * "(unreachable)" (CVE-2024-21626). */
static int enter_cwd(const char *cwd, struct error *err)
{
    char now[PATH_MAX];
    if (chdir(cwd) < 0)
        return error_text(err, -errno, "chdir to `%s`: %s", cwd, strerror(errno));
    long n = syscall(SYS_getcwd, now, sizeof(now));
    if (n < 0 && errno == ENOENT)
        return error_text(err, -ENOENT, "chdir to `%s`: %s", cwd, strerror(ENOENT));
    if (n < 0 || now[0] != '/')
        return error_text(err, -EPERM, "chdir to `%s`: the directory is outside the container", cwd);
    return 0;
}

/* Directory and program are looked for with the runtime's rights first and once more as the container's user
 * where that was refused: on a file system that squashes root only the user may see them. */
static int find_both(struct process_plan *plan, char program[static PATH_MAX], struct error *err)
{
    int ret = enter_cwd(plan->cwd, err);
    return ret < 0 ? ret : find_program(plan, program, err);
}

/* Effective capabilities that the last steps need beyond the container's. */
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
    /* A program that is executed finds it cleared. */
    return ret == 0 && plan->warm != NULL ? selinux_clear_keycreate(&plan->selinux, err) : ret;
}

/* Set for execve, or only made ready while it is not known whether there will be one: what is left of the
 * other way would come into force when the program executes another. */
static int apply_labels(struct process_plan *plan, struct error *err)
{
    int ret =
        plan->warm != NULL ? selinux_open(&plan->selinux, err) : selinux_apply_exec(&plan->selinux, err);
    if (ret < 0)
        return ret;
    return plan->warm != NULL ? apparmor_open(&plan->apparmor, err) : apparmor_apply(&plan->apparmor, err);
}

static int apply_privileged(struct process_plan *plan, struct error *err)
{
    int ret = identity_own_stdio(&plan->identity, err);
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

int process_become(struct process_plan *plan, int copy, char program[static PATH_MAX], struct error *err)
{
    static char home[PATH_MAX + sizeof("HOME=")];
    int ret = apply_privileged(plan, err);
    if (ret < 0)
        return ret;
    if (plan->home_missing) {
        home_variable(plan->identity.uid, home, sizeof(home));
        ((char **)(uintptr_t)plan->envp)[plan->home_slot] = home;
    }
    bool retry = false;
    ret = find_both(plan, program, err);
    if (ret == -EACCES)
        retry = true;
    else if (ret < 0)
        return ret;
    /* Before the identity changes: it needs privilege in the user namespace. */
    cleanup_fd int exe = plan->warm != NULL ? open(program, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
    ret = detach_from_binary(copy, exe, err);
    if (ret == 0)
        ret = rlimits_apply(&plan->rlimits, err);
    if (ret == 0)
        ret = caps_apply_before_uid(&plan->caps, err);
    if (ret == 0)
        ret = identity_apply(&plan->identity, err);
    if (ret == 0)
        ret = hold_capabilities(plan, err);
    if (ret == 0 && retry)
        ret = find_both(plan, program, err);
    /* The change of identity clears it. */
    if (ret == 0 && plan->die_with_runtime && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        ret = error_set(err, -errno, "prctl PR_SET_PDEATHSIG");
    return ret;
}

/* The kernel's default for fs.nr_open: no descriptor has a higher number. */
#define MAX_DESCRIPTOR 1048576U

/* Those that may outlive process_close_descriptors: the caller's, and two of a snapshot. */
#define MAX_KEPT 8

/* The lowest descriptor from `first` on that has to stay open, ~0U for none: one of `keep`, or what is still
 * to come into force: Landlock's rules, labels. */
static unsigned next_kept(const struct process_plan *plan, const int *keep, size_t count, unsigned first)
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
    /* Numbers that are passed on but were not open may have become the runtime's own. */
    for (int fd = 3; fd < (int)first; fd++)
        if (next_kept(plan, keep, count, (unsigned)fd) != (unsigned)fd && fcntl(fd, F_GETFD) == FD_CLOEXEC)
            close(fd);
    for (;;) {
        unsigned next = next_kept(plan, keep, count, first);
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
    for (; n < count && n < MAX_KEPT - 2; n++)
        all[n] = keep[n];
    if (plan->warm != NULL) {
        all[n++] = plan->warm->slot.image;
        all[n++] = plan->warm->agent;
    }
    close_all_but(plan, all, n);
}

bool process_loads_early(const struct process_plan *plan)
{
    return plan->seccomp.notify;
}

int process_confine(struct process_plan *plan, struct seccomp_handover *handover, struct error *err)
{
    int ret = identity_apply_no_new_privs(&plan->identity, err);
    if (ret == 0)
        ret = selinux_apply_opened(&plan->selinux, err);
    if (ret == 0)
        ret = apparmor_apply_opened(&plan->apparmor, err);
    if (ret == 0)
        ret = landlock_apply(&plan->landlock, err);
    if (ret == 0)
        ret = seccomp_load(&plan->seccomp, handover, err);
    if (ret == 0 && confined_by_privilege(plan))
        ret = caps_apply_after_uid(&plan->caps, err);
    return ret;
}

int process_execute(const struct process_plan *plan, const char *program, struct error *err)
{
    execve(program, plan->argv, plan->envp);
    int reason = errno;
    /* The file is there, as was seen before: what is missing is its interpreter. */
    if (reason == ENOENT && access(program, F_OK) == 0)
        return error_text(err, -reason, "exec `%s`: its interpreter or dynamic loader is missing: %s",
                          program, strerror(reason));
    return error_text(err, -reason, "exec `%s`: %s", program, strerror(reason));
}

int process_start(struct process_plan *plan, struct seccomp_handover *handover, const char *program,
                  int channel, struct error *err)
{
    if (plan->warm != NULL && warm_start_enter(plan, program, channel, err) < 0) {
        if (plan->warm->decision.mode == WARM_REQUIRE)
            return error_wrap(err, WARM_ANNOTATION_MODE "=require");
        sync_send_reason(channel, SYNC_COLD, err);
    }
    int ret = process_confine(plan, handover, err);
    return ret < 0 ? ret : process_execute(plan, program, err);
}

void process_describe(const struct process_plan *plan, struct json_out *out)
{
    json_out_map_open(out);
    json_out_key(out, "args");
    json_out_array_open(out);
    for (size_t i = 0; plan->argv[i] != NULL; i++)
        json_out_string(out, plan->argv[i]);
    json_out_array_close(out);
    json_out_pair_string(out, "cwd", plan->cwd);
    json_out_pair_u64(out, "uid", plan->identity.uid);
    json_out_pair_u64(out, "gid", plan->identity.gid);
    json_out_pair_bool(out, "terminal", plan->terminal.wanted);
    json_out_pair_bool(out, "noNewPrivileges", plan->identity.no_new_privs);
    json_out_key(out, "capabilities");
    caps_describe(&plan->caps, out);
    json_out_key(out, "rlimits");
    rlimits_describe(&plan->rlimits, out);
    json_out_key(out, "seccomp");
    seccomp_describe(&plan->seccomp, out);
    json_out_key(out, "selinuxLabel");
    selinux_describe(&plan->selinux, out);
    json_out_key(out, "apparmorProfile");
    apparmor_describe(&plan->apparmor, out);
    json_out_key(out, "landlock");
    landlock_describe(&plan->landlock, out);
    json_out_map_close(out);
}
