/* Plan, join and create the eight namespaces. */
#include "sandbox/namespaces.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/json_out.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/sys.h"
#include "base/text.h"

/* The kernel's PROC_USER_INIT_INO, which is ABI since 3.8. */
#define INITIAL_USER_NAMESPACE 0xEFFFFFFDUL

static const struct {
    const char *name; /* in config.json */
    const char *file; /* in /proc/PID/ns */
    int flag;
} types[NAMESPACE_TYPES] = {
    {"user", "user", CLONE_NEWUSER},       {"pid", "pid", CLONE_NEWPID},    {"network", "net", CLONE_NEWNET},
    {"mount", "mnt", CLONE_NEWNS},         {"ipc", "ipc", CLONE_NEWIPC},    {"uts", "uts", CLONE_NEWUTS},
    {"cgroup", "cgroup", CLONE_NEWCGROUP}, {"time", "time", CLONE_NEWTIME},
};

static const char *namespaces_file(int flag)
{
    for (size_t i = 0; i < NAMESPACE_TYPES; i++)
        if (types[i].flag == flag)
            return types[i].file;
    return "?";
}

static void plan_time_offsets(struct arena *a, const struct spec *spec, struct namespaces_plan *out)
{
    struct text lines = {.arena = a};
    for (size_t i = 0; i < spec->linux_->time_offsets.count; i++) {
        const struct spec_time_offset *offset = &spec->linux_->time_offsets.items[i];
        text_add(&lines, "%s %lld %u\n", offset->clock, (long long)offset->secs, offset->nanosecs);
    }
    out->time_offsets = lines.length > 0 ? text_string(&lines) : NULL;
}

int namespaces_plan(struct arena *a, const struct spec *spec, struct namespaces_plan *out, struct error *err)
{
    *out = (struct namespaces_plan){.runtime = -1, .time_file = -1};
    const struct spec_namespaces *list = &spec->linux_->namespaces;
    for (size_t i = 0; i < list->count; i++) {
        int flag = 0;
        for (size_t t = 0; t < NAMESPACE_TYPES; t++)
            if (strcmp(types[t].name, list->items[i].type) == 0)
                flag = types[t].flag;
        if (flag == 0)
            return error_set(err, -EINVAL, "linux.namespaces[%zu].type: unknown namespace '%s'", i,
                             list->items[i].type);
        if (((out->make | out->join) & flag) != 0)
            return error_set(err, -EINVAL, "linux.namespaces[%zu].type: '%s' is given twice", i,
                             list->items[i].type);
        if (list->items[i].path == NULL) {
            out->make |= flag;
            continue;
        }
        out->join |= flag;
        out->joins[out->join_count++] =
            (struct namespace_join){list->items[i].type, list->items[i].path, flag, i, -1};
    }
    plan_time_offsets(a, spec, out);
    return 0;
}

static bool namespaces_is_own(const struct namespace_join *join)
{
    char path[64];
    struct stat own, other;
    snprintf(path, sizeof(path), "/proc/self/ns/%s", namespaces_file(join->flag));
    return stat(path, &own) == 0 && fstat(join->fd, &other) == 0 && own.st_dev == other.st_dev &&
           own.st_ino == other.st_ino;
}

int namespaces_open(struct namespaces_plan *plan, struct error *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < plan->join_count; i++) {
        struct namespace_join *join = &plan->joins[i];
        join->fd = open(join->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (join->fd < 0)
            return error_set(err, -errno, "linux.namespaces[%zu].path: open '%s'", join->index, join->path);
        int type = ioctl(join->fd, NS_GET_NSTYPE);
        if (type != join->flag)
            return error_set(err, -EINVAL, "linux.namespaces[%zu].path: '%s' is not a %s namespace",
                             join->index, join->path, join->type);
        if (namespaces_is_own(join)) {
            plan->join &= ~join->flag;
            fd_close(&join->fd);
            continue;
        }
        plan->joins[kept++] = *join;
    }
    plan->join_count = kept;
    plan->intermediate = (plan->join & (CLONE_NEWPID | CLONE_NEWUSER)) != 0 ||
                         ((plan->make & CLONE_NEWUSER) != 0 && plan->join != 0);
    return 0;
}

bool namespaces_has(const struct namespaces_plan *plan, const char *type)
{
    for (size_t i = 0; i < NAMESPACE_TYPES; i++)
        if (strcmp(types[i].name, type) == 0)
            return ((plan->make | plan->join) & types[i].flag) != 0;
    return false;
}

static const char *clone_hint(int errnum, int flags)
{
    if (errnum == EPERM && (flags & CLONE_NEWUSER) != 0)
        return " (are unprivileged user namespaces switched off? see user.max_user_namespaces and "
               "kernel.unprivileged_userns_clone; after chroot(2) the kernel makes none)";
    if (errnum == ENOSPC || errnum == EUSERS)
        return " (a limit in /proc/sys/user/max_*_namespaces is reached)";
    if (errnum == EAGAIN)
        return " (the limit of processes, RLIMIT_NPROC or pids.max, is reached)";
    return "";
}

void namespaces_close(struct namespaces_plan *plan)
{
    for (size_t i = 0; i < plan->join_count; i++)
        fd_close(&plan->joins[i].fd);
    fd_close(&plan->runtime);
}

int namespaces_overlap_network(struct namespaces_plan *plan, struct error *err)
{
    if ((plan->make & CLONE_NEWNET) == 0 || ((plan->make | plan->join) & CLONE_NEWUSER) != 0)
        return 0;
    plan->runtime = sys_pidfd_open(getpid(), 0);
    if (plan->runtime < 0)
        return error_set(err, -errno, "open a descriptor of the runtime's own process");
    plan->network_overlapped = true;
    return 0;
}

int namespaces_make_network(const struct namespaces_plan *plan, struct error *err)
{
    if (plan->network_overlapped && unshare(CLONE_NEWNET) < 0)
        return error_set(err, -errno, "make a network namespace%s", clone_hint(errno, CLONE_NEWNET));
    return 0;
}

int namespaces_enter_network(struct namespaces_plan *plan, struct error *err)
{
    if (setns(plan->runtime, CLONE_NEWNET) < 0)
        return error_set(err, -errno, "enter the new network namespace");
    fd_close(&plan->runtime);
    return 0;
}

static int join_one(struct namespace_join *join, struct error *err)
{
    if (setns(join->fd, join->flag) < 0)
        return error_set(err, -errno, "linux.namespaces[%zu]: enter the %s namespace '%s'", join->index,
                         join->type, join->path);
    fd_close(&join->fd);
    return 0;
}

/* The creator of an ipc namespace owns its message queues (the root of the file system of
 * mqueue_overview(7)). In a user namespace that must be the namespace's root. The child is not root before
 * the mappings exist, so it makes this namespace late. */
static bool ipc_is_late(const struct namespaces_plan *plan)
{
    return (plan->make & CLONE_NEWIPC) != 0 && ((plan->make | plan->join) & CLONE_NEWUSER) != 0;
}

/* Namespaces that clone makes at once. Time and cgroup come later. */
#define AT_CLONE (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS)

/* Return the namespaces that the child makes. It has time for them while the runtime makes the network. */
static int in_child(const struct namespaces_plan *plan)
{
    if (plan->network_overlapped)
        return plan->make & (CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS);
    return ipc_is_late(plan) ? CLONE_NEWIPC : 0;
}

static int at_clone(const struct namespaces_plan *plan)
{
    return plan->make & AT_CLONE & ~(plan->network_overlapped ? CLONE_NEWNET : 0) & ~in_child(plan);
}

static pid_t namespaces_clone_into(unsigned long long flags, int cgroup_fd, int *pidfd)
{
    *pidfd = -1;
    struct clone_args args = {.flags = flags | CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)pidfd};
    /* With CLONE_PARENT, the kernel takes the exit signal from the caller. */
    if ((flags & CLONE_PARENT) == 0)
        args.exit_signal = SIGCHLD;
    if (cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cgroup_fd;
    }
    return sys_clone3(&args, sizeof(args));
}

/* Intermediate process: enter the namespaces that must be entered before the clone. If the kernel refuses
 * one, it belongs to the container's user namespace: the child enters it, with the rights it has there. */
static int join_before_clone(struct namespaces_plan *plan, struct error *err)
{
    for (size_t i = 0; i < plan->join_count; i++) {
        struct namespace_join *join = &plan->joins[i];
        if (join->flag == CLONE_NEWUSER)
            continue;
        if (setns(join->fd, join->flag) == 0)
            fd_close(&join->fd);
        else if (errno != EPERM)
            return error_set(err, -errno, "linux.namespaces[%zu]: enter the %s namespace '%s'", join->index,
                             join->type, join->path);
    }
    for (size_t i = 0; i < plan->join_count; i++)
        if (plan->joins[i].flag == CLONE_NEWUSER) {
            int ret = join_one(&plan->joins[i], err);
            if (ret < 0)
                return ret;
        }
    /* A pid namespace takes effect at the clone, so this is the last chance to enter it. */
    for (size_t i = 0; i < plan->join_count; i++)
        if (plan->joins[i].flag == CLONE_NEWPID && plan->joins[i].fd >= 0) {
            int ret = join_one(&plan->joins[i], err);
            if (ret < 0)
                return ret;
        }
    return 0;
}

/* Set the error of a clone with new namespaces, whose errno is set. */
static int clone_failed(const struct namespaces_plan *plan, struct error *err)
{
    const bool refused = errno == ENOSYS || errno == EPERM || errno == EACCES || errno == ENOSPC;
    return error_classify(
        err, refused ? ERROR_NO_NAMESPACES : ERROR_OTHER,
        error_set(err, -errno, "clone with new namespaces%s", clone_hint(errno, plan->make)));
}

struct intermediate_report {
    pid_t pid;
    struct error err;
};

/* Clone twice: the first process enters the namespaces. It clones the second one with CLONE_PARENT, which
 * makes that one a child of the runtime. */
static pid_t clone_through_intermediate(struct namespaces_plan *plan, int cgroup_fd, int *pidfd,
                                        struct error *err)
{
    int report[2];
    if (pipe2(report, O_CLOEXEC) < 0)
        return error_set(err, -errno, "make a pipe");
    cleanup_fd int reader = report[0];
    cleanup_fd int writer = report[1];
    cleanup_fd int helper_fd = -1;
    pid_t helper = namespaces_clone_into(0, cgroup_fd, &helper_fd);
    if (helper < 0)
        return error_set(err, -errno, "clone%s", clone_hint(errno, 0));
    if (helper == 0) {
        struct intermediate_report r = {0};
        int unused;
        if (join_before_clone(plan, &r.err) == 0) {
            r.pid = namespaces_clone_into((unsigned)at_clone(plan) | CLONE_PARENT, -1, &unused);
            if (r.pid == 0)
                return 0;
            if (r.pid < 0)
                clone_failed(plan, &r.err);
        }
        _exit(io_write_full(writer, &r, sizeof(r)) < 0 ? 1 : 0);
    }
    fd_close(&writer);
    struct intermediate_report r = {0};
    ssize_t n = io_read_full(reader, &r, sizeof(r));
    RETRY(waitpid(helper, NULL, 0));
    if (n != (ssize_t)sizeof(r))
        return error_set(err, n < 0 ? (int)n : -ESRCH, "the process that enters the namespaces");
    if (r.pid <= 0) {
        *err = r.err;
        return r.err.code;
    }
    *pidfd = sys_pidfd_open(r.pid, 0);
    if (*pidfd < 0)
        return error_set(err, -errno, "open a descriptor of the container's process");
    return r.pid;
}

pid_t namespaces_clone(struct namespaces_plan *plan, int cgroup_fd, int *pidfd, struct error *err)
{
    if (plan->intermediate)
        return clone_through_intermediate(plan, cgroup_fd, pidfd, err);
    pid_t pid = namespaces_clone_into((unsigned)at_clone(plan), cgroup_fd, pidfd);
    if (pid < 0)
        return clone_failed(plan, err);
    return pid;
}

int namespaces_open_time(struct namespaces_plan *plan, struct error *err)
{
    if (plan->time_offsets == NULL)
        return 0;
    plan->time_file = proc_open("self/timens_offsets", O_WRONLY, err);
    return plan->time_file < 0 ? error_wrap(err, "linux.timeOffsets") : 0;
}

static int enter_new_time(struct namespaces_plan *plan, struct error *err)
{
    if (unshare(CLONE_NEWTIME) < 0)
        return error_set(err, -errno, "make a time namespace");
    if (plan->time_file >= 0 &&
        RETRY(write(plan->time_file, plan->time_offsets, strlen(plan->time_offsets))) < 0)
        return error_set(err, -errno, "linux.timeOffsets: write '%s' to 'timens_offsets'",
                         plan->time_offsets);
    fd_close(&plan->time_file);
    cleanup_fd int fd = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, -errno, "open '/proc/self/ns/time_for_children'");
    if (setns(fd, CLONE_NEWTIME) < 0)
        return error_set(err, -errno, "enter the new time namespace");
    return 0;
}

int namespaces_enter(struct namespaces_plan *plan, struct error *err)
{
    for (size_t i = 0; i < plan->join_count; i++) {
        if (plan->joins[i].fd < 0)
            continue;
        int ret = join_one(&plan->joins[i], err);
        if (ret < 0)
            return ret;
    }
    int flags = in_child(plan);
    if (flags != 0 && unshare(flags) < 0)
        return error_set(err, -errno, "make namespaces%s", clone_hint(errno, flags));
    return (plan->make & CLONE_NEWTIME) != 0 ? enter_new_time(plan, err) : 0;
}

int namespaces_make_cgroup(const struct namespaces_plan *plan, struct error *err)
{
    if ((plan->make & CLONE_NEWCGROUP) != 0 && unshare(CLONE_NEWCGROUP) < 0)
        return error_set(err, -errno, "make a cgroup namespace");
    return 0;
}

int namespaces_in_initial_user(struct error *err)
{
    struct stat st;
    if (stat("/proc/self/ns/user", &st) < 0)
        return error_set(err, -errno, "stat '/proc/self/ns/user'");
    return st.st_ino == INITIAL_USER_NAMESPACE;
}

static void describe_offsets(const char *lines, struct json_out *out)
{
    char line[64];
    json_out_key(out, "offsets");
    json_out_array_open(out);
    for (size_t length; (length = strcspn(lines, "\n")) > 0; lines += length + 1) {
        snprintf(line, sizeof(line), "%.*s", (int)length, lines);
        json_out_string(out, line);
    }
    json_out_array_close(out);
}

void namespaces_describe(const struct namespaces_plan *plan, struct json_out *out)
{
    json_out_array_open(out);
    for (size_t i = 0; i < NAMESPACE_TYPES; i++) {
        if (((plan->make | plan->join) & types[i].flag) == 0)
            continue;
        json_out_map_open(out);
        json_out_pair_string(out, "type", types[i].name);
        if (types[i].flag == CLONE_NEWNET && plan->network_overlapped)
            json_out_pair_bool(out, "overlapped", true);
        if (types[i].flag == CLONE_NEWTIME && plan->time_offsets != NULL)
            describe_offsets(plan->time_offsets, out);
        for (size_t j = 0; j < plan->join_count; j++)
            if (plan->joins[j].flag == types[i].flag)
                json_out_pair_string(out, "path", plan->joins[j].path);
        json_out_map_close(out);
    }
    json_out_array_close(out);
}
