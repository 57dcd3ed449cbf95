/* Making a container. Each step has its undo in undo_creation; the record on disk names what will be made
 * before it is made, so that delete --force can do the same for a runtime that was killed. */
#include "container/create.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/libraries.h"
#include "base/log.h"
#include "base/sys.h"
#include "container/hooks.h"
#include "container/spawn.h"
#include "container/warm_start.h"
#include "container/watched.h"
#include "sandbox/mount/rootfs.h"
#include "sandbox/seccomp/notify.h"

void creation_release(struct creation *c)
{
    if (c->plan.rootfs_plan != NULL)
        rootfs_release(c->plan.rootfs_plan);
    warm_start_release(c->plan.warm);
    namespaces_close(&c->plan.namespaces);
    terminal_release(&c->plan.process.terminal);
    fd_close(&c->listener);
    fd_close(&c->devices);
    fd_close(&c->sync);
    fd_close(&c->pidfd);
    fd_close(&c->dir);
    fd_close(&c->root);
    arena_free(&c->arena);
}

static const char *joined_mount_namespace(const struct plan *plan)
{
    const struct spec_namespace *mount = spec_namespace(plan->spec, "mount");
    return mount != NULL && (plan->namespaces.join & CLONE_NEWNS) != 0 ? mount->path : NULL;
}

/* May a process of the container trace one of the runtime's that is born in its pid namespace? Not from a
 * user namespace of its own: unseen.h. Whoever else is in a pid namespace that is joined may have the
 * capability too. */
static bool is_watched(const struct plan *plan)
{
    const struct namespaces_plan *namespaces = &plan->namespaces;
    bool traces = plan->has_process && process_may_trace(&plan->process);
    return ((namespaces->make | namespaces->join) & CLONE_NEWUSER) == 0 &&
           (((namespaces->make & CLONE_NEWPID) != 0 && traces) || (namespaces->join & CLONE_NEWPID) != 0);
}

static void fill_record(struct creation *c, const struct create_options *options)
{
    const struct plan *plan = &c->plan;
    c->record = (struct record){
        .id = plan->id,
        .oci_version = plan->spec->oci_version,
        .bundle = plan->bundle,
        .rootfs = plan->rootfs,
        .created = record_time(&c->arena),
        .owner = geteuid(),
        .namespaces = (unsigned)(plan->namespaces.make | plan->namespaces.join),
        .no_new_keyring = options->no_new_keyring,
        .watched = is_watched(plan),
        .chrooted = (plan->namespaces.make & CLONE_NEWNS) == 0,
        .mount_namespace = joined_mount_namespace(plan),
        .cgroup = plan->cgroup->ref,
        .rdt_group = plan->intelrdt.group,
        .rdt_monitor = plan->intelrdt.monitor,
        /* A group named after the container is its own even if the runtime dies before it can say so. */
        .rdt_made = {.group = plan->intelrdt.group != NULL && !plan->intelrdt.named,
                     .monitor = plan->intelrdt.monitor != NULL},
        .has_seccomp = plan->has_process && plan->process.seccomp.filter != NULL,
        .seccomp_flags = plan->process.seccomp.flags,
        .seccomp_listener = plan->process.seccomp.notify ? plan->process.seccomp.listener_path : NULL,
        .seccomp_metadata = plan->process.seccomp.listener_metadata,
        .has_poststart = plan->spec->hooks.poststart.count > 0,
        .has_poststop = plan->spec->hooks.poststop.count > 0,
        .annotations = plan->spec->annotations,
        .ignored = plan->ignored.pairs,
        .landlock_log = plan->landlock_log,
    };
}

/* The directory and the record, before anything else is made. Without a directory of one's own there is
 * nothing to undo. */
static int write_record(struct creation *c, struct error *err)
{
    cleanup_fd int dir = record_make_dir(c->root, c->plan.id, err);
    int ret = dir < 0 ? dir : record_lock(dir, c->plan.id, err);
    if (dir >= 0 && ret < 0 && ret != -ENOENT && ret != -EBUSY)
        record_remove_dir(c->root, dir, c->plan.id, NULL);
    if (ret < 0)
        return ret;
    c->dir = fd_steal(&dir);
    return record_write(c->dir, &c->record, err);
}

/* Whose pid namespace is joined learns that there is one who may trace. */
static int tell_watched(const struct creation *c, struct error *err)
{
    const struct namespaces_plan *namespaces = &c->plan.namespaces;
    struct stat ns;
    if (!c->record.watched || (namespaces->join & CLONE_NEWPID) == 0 || !process_may_trace(&c->plan.process))
        return 0;
    for (size_t i = 0; i < namespaces->join_count; i++) {
        if (namespaces->joins[i].flag != CLONE_NEWPID)
            continue;
        if (fstat(namespaces->joins[i].fd, &ns) < 0)
            return error_set(err, -errno, "stat the pid namespace '%s'", namespaces->joins[i].path);
        return watched_tell(c->root, c->plan.id, &ns, err);
    }
    return 0;
}

/* The socket on which init waits for start; bound through the directory's descriptor, for a path may be
 * longer than sun_path. */
static int listen_for_start(const struct creation *c, struct error *err)
{
    cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_set(err, -errno, "make the start socket");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" RECORD_START_SOCKET, c->dir);
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 1) < 0)
        return error_set(err, -errno, "bind the start socket of container '%s'", c->plan.id);
    return fd_steal(&fd);
}

/* In the order of delete_recorded. Whatever cannot be undone, the rest is. */
static void undo_creation(struct creation *c, const struct create_options *options)
{
    struct error ignored = {0};
    if (c->pidfd >= 0) {
        sys_pidfd_send_signal(c->pidfd, SIGKILL, NULL, 0);
        siginfo_t info;
        RETRY(waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED));
        if (options->pid_file != NULL)
            unlink(options->pid_file);
    }
    if (c->owns_cgroup && cgroup_destroy(&c->record.cgroup, &ignored) < 0)
        log_warning("%s", ignored.text);
    if (c->record.rdt_made.group || c->record.rdt_made.monitor) {
        cleanup_fd int root = intelrdt_open(&ignored);
        if (root >= 0)
            intelrdt_destroy(c->record.rdt_group, c->record.rdt_monitor, &c->record.rdt_made, root, &ignored);
    }
    if (c->record.chrooted && rootfs_detach(c->plan.rootfs, c->record.mount_namespace, &ignored) < 0)
        log_warning("%s", ignored.text);
    /* The specification: what fails after the namespaces exist is followed by destruction and the poststop
     * hooks. */
    if (c->pidfd >= 0) {
        struct hook_run run = {.kind = "poststop", .status = "stopped", .cwd = c->plan.bundle};
        hooks_run_all(&c->plan.spec->hooks.poststop, &run, &c->record);
    }
    if (record_remove_dir(c->root, c->dir, c->plan.id, &ignored) < 0)
        log_warning("%s", ignored.text);
}

static int act(struct creation *c, const struct create_options *options, struct error *err)
{
    struct seccomp_handover *handover = NULL;
    cleanup_fd int cgroup_fd = -1;
    cleanup_fd int start_socket = -1;
    libraries_settle();
    int ret = write_record(c, err);
    if (c->dir < 0)
        return ret;
    if (ret == 0)
        ret = tell_watched(c, err);
    if (ret == 0)
        ret = cgroup_create(c->plan.cgroup, &cgroup_fd, err);
    c->owns_cgroup = cgroup_fd >= 0;
    if (ret == 0 && c->goal == CREATION_WAITS)
        ret = start_socket = listen_for_start(c, err);
    if (ret >= 0)
        ret = rootfs_prepare(c->plan.rootfs_plan, err);
    if (ret == 0 && c->plan.has_process)
        ret = seccomp_handover_new(options->observe != OBSERVE_NOT ? &c->plan.process.observer
                                                                   : &c->plan.process.seccomp,
                                   &handover, err);
    if (ret == 0 && c->plan.has_process && c->plan.other_user_namespace)
        ret = rlimits_raise(&c->plan.process.rlimits, err);
    if (ret == 0)
        ret = creation_spawn(c, options, cgroup_fd, start_socket, handover, err);
    seccomp_handover_free(handover);
    rootfs_release(c->plan.rootfs_plan);
    if (ret < 0)
        undo_creation(c, options);
    record_unlock(c->dir);
    return ret;
}

/* Open the state root and plan: *out->arena holds the source already. */
static int plan_creation(const struct runtime_options *rt, const struct create_options *options,
                         const struct plan_source *source, struct creation *out, struct error *err)
{
    out->root = record_open_root(record_root(&out->arena, rt->root), true, err);
    int ret =
        out->root < 0 ? out->root : plan_make(&out->arena, rt, options, source, out->root, &out->plan, err);
    if (ret < 0 || !out->plan.has_process)
        return ret;
    bool foreground = out->goal == CREATION_RUNS && !options->detach;
    return terminal_plan(out->plan.spec->process, options->console_socket, foreground,
                         &out->plan.process.terminal, err);
}

/* Carry the plan out; on failure the creation is released. */
static int carry_out(struct creation *c, const struct create_options *options, int ret, struct error *err)
{
    if (ret == 0) {
        c->plan.process.die_with_runtime = options->die_with_runtime;
        if (options->observe != OBSERVE_NOT) {
            struct seccomp_plan *filter = &c->plan.process.observer;
            *filter = (struct seccomp_plan){.notify = true, .origin = "observer"};
            observe_filter(&c->arena, options->observe, &filter->filter, &filter->count);
        }
        fill_record(c, options);
        ret = act(c, options, err);
    }
    if (ret < 0)
        creation_release(c);
    return ret;
}

int creation_make_from(const struct runtime_options *rt, const struct create_options *options,
                       const struct plan_source *source, enum creation_goal goal, struct creation *out,
                       struct error *err)
{
    *out = CREATION_NONE;
    out->goal = goal;
    return carry_out(out, options, plan_creation(rt, options, source, out, err), err);
}

/* A restorer installs the filter itself, after the hooks: too late where these may trace the process. */
static int plan_warm(struct creation *c, const struct runtime_options *rt, struct error *err)
{
    int ret = warm_start_plan(&c->arena, rt, &c->plan, err);
    if (ret == 0 && c->plan.warm != NULL && c->plan.warm->reason == NULL && is_watched(&c->plan) &&
        c->plan.spec->hooks.start_container.count > 0)
        c->plan.warm->reason = "startContainer hooks may trace the process (CAP_SYS_PTRACE)";
    return ret;
}

int creation_make(const struct runtime_options *rt, const struct create_options *options,
                  enum creation_goal goal, struct creation *out, struct error *err)
{
    *out = CREATION_NONE;
    out->goal = goal;
    struct plan_source source;
    int ret = record_check_id(options->id, err);
    if (ret == 0)
        ret = plan_read(&out->arena, options, &source, err);
    if (ret == 0)
        ret = plan_creation(rt, options, &source, out, err);
    if (ret == 0)
        plan_warn(&out->arena, &out->plan);
    if (ret == 0)
        ret = plan_warm(out, rt, err);
    if (ret == 0)
        ret = warm_start_prepare(&out->arena, rt, options, &out->plan, err);
    if (ret == 0 && out->plan.process.warm != NULL)
        warm_start_divide(out->plan.process.warm, &source.spec->hooks);
    return carry_out(out, options, ret, err);
}

int container_create(const struct runtime_options *rt, const struct create_options *options,
                     struct error *err)
{
    struct creation c;
    int ret = creation_make(rt, options, CREATION_WAITS, &c, err);
    if (ret == 0)
        creation_release(&c);
    return ret;
}

/* The plan of a container that is not made, for those who only look. */
static int look_at(struct creation *c, const struct runtime_options *rt, const struct create_options *options,
                   struct error *err)
{
    struct plan_source source;
    int ret = record_check_id(options->id, err);
    if (ret < 0)
        return ret;
    c->root = record_open_root(record_root(&c->arena, rt->root), false, err);
    ret = plan_read(&c->arena, options, &source, err);
    if (ret == 0)
        ret = plan_make(&c->arena, rt, options, &source, c->root, &c->plan, err);
    if (ret == 0)
        plan_warn(&c->arena, &c->plan);
    return ret < 0 ? ret : plan_warm(c, rt, err);
}

int container_plan(const struct runtime_options *rt, const struct create_options *options,
                   struct json_out *out, struct error *err)
{
    struct creation c = CREATION_NONE;
    int ret = look_at(&c, rt, options, err);
    if (ret == 0 && c.plan.warm != NULL)
        ret = warm_start_look(&c.arena, c.plan.warm, err);
    if (ret == 0)
        plan_describe(&c.plan, out);
    creation_release(&c);
    return ret;
}

int container_warm_build(const struct runtime_options *rt, const struct create_options *options,
                         struct error *err)
{
    struct creation c = CREATION_NONE;
    int ret = look_at(&c, rt, options, err);
    if (ret == 0)
        ret = warm_start_build(&c.arena, rt, options, &c.plan, err);
    creation_release(&c);
    return ret;
}
