/* The steps of a creation. The record on disk names each thing before it is made, so delete_recorded can undo
 * every step. It does so here after a failure, and in `delete --force` after the runtime was killed. */
#include "container/create.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/libraries.h"
#include "base/log.h"
#include "container/delete.h"
#include "container/execve.h"
#include "container/launch.h"
#include "container/pid_file.h"
#include "container/spawn.h"
#include "container/status_file.h"
#include "container/tracing.h"
#include "sandbox/mount/rootfs.h"
#include "sandbox/seccomp/notify.h"

void creation_release(struct creation *c)
{
    if (c->plan.rootfs_plan != NULL)
        rootfs_release(c->plan.rootfs_plan);
    credentials_end_loan(&c->loan);
    first_release(&c->plan.process.first);
    launch_release(c->plan.process.launch);
    namespaces_close(&c->plan.namespaces);
    terminal_release(&c->plan.process.terminal);
    fd_close(&c->devices);
    fd_close(&c->sync);
    fd_close(&c->pidfd);
    fd_close(&c->pidfd_socket);
    fd_close(&c->status_file);
    fd_close(&c->inside);
    fd_close(&c->dir);
    fd_close(&c->root);
    arena_free(&c->arena);
}

static const char *joined_mount_namespace(const struct plan *plan)
{
    const struct spec_namespace *mount = spec_namespace(plan->spec, "mount");
    return mount != NULL && (plan->namespaces.join & CLONE_NEWNS) != 0 ? mount->path : NULL;
}

/* Return whether the first process, once it is on record, executes the program without another step of the
 * runtime. A minimal init is executed before the program's process is ready, hooks come before the program,
 * and the runtime takes a listener. */
static bool executes_unasked(const struct plan *plan)
{
    const struct process_plan *process = &plan->process;
    return process->launch->child == launch_execve.child && !process->first.wanted &&
           !process_loads_early(process) && plan->spec->hooks.start_container.count == 0;
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
        .traceable = plan->traceable,
        .has_init = plan->process.first.wanted,
        .shares_pids = (plan->namespaces.make & CLONE_NEWPID) == 0,
        .executes = c->goal == CREATION_RUNS && plan->has_process && executes_unasked(plan),
        .chrooted = (plan->namespaces.make & CLONE_NEWNS) == 0,
        .mount_namespace = joined_mount_namespace(plan),
        .cgroup = plan->cgroup->ref,
        .has_seccomp = plan->has_process && plan->process.seccomp.filter != NULL,
        .seccomp_flags = plan->process.seccomp.flags,
        .seccomp_listener = plan->process.seccomp.notify ? plan->process.seccomp.listener_path : NULL,
        .seccomp_metadata = plan->process.seccomp.listener_metadata,
        .has_process_settings =
            plan->spec->linux_->memory_policy != NULL || plan->spec->linux_->personality != NULL,
        .has_poststart = plan->spec->hooks.poststart.count > 0,
        .has_poststop = plan->spec->hooks.poststop.count > 0,
        .annotations = plan->spec->annotations,
        .ignored = plan->ignored.pairs,
        .landlock_log = plan->landlock_log,
    };
}

/* Make the directory and write the record before anything else is made. If the directory cannot be made, the
 * creation has nothing to undo. */
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

/* Mark the other containers of a joined pid namespace as traceable. */
static int announce_capability(const struct creation *c, struct error *err)
{
    const struct namespaces_plan *namespaces = &c->plan.namespaces;
    struct stat ns;
    if (!c->record.traceable || (namespaces->join & CLONE_NEWPID) == 0 ||
        !tracing_capable(&c->plan.process.caps))
        return 0;
    for (size_t i = 0; i < namespaces->join_count; i++) {
        if (namespaces->joins[i].flag != CLONE_NEWPID)
            continue;
        if (fstat(namespaces->joins[i].fd, &ns) < 0)
            return error_set(err, -errno, "stat the pid namespace '%s'", namespaces->joins[i].path);
        return tracing_announce(c->root, c->plan.id, &ns, err);
    }
    return 0;
}

static int make_cgroup(struct creation *c, int *fd, struct error *err)
{
    int ret = cgroup_create(c->plan.cgroup, fd, err);
    return ret < 0 || *fd < 0 ? ret : record_own_cgroup(c->dir, c->plan.id, err);
}

/* Make the socket on which init waits for start. It is bound through the descriptor of the directory, because
 * a path can be longer than sun_path. */
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

static int create_spawn(struct creation *c, const struct create_options *options, int cgroup_fd,
                        int start_socket, struct error *err)
{
    const struct process_plan *process = &c->plan.process;
    struct seccomp_handover *handover = NULL;
    if (c->plan.has_process) {
        const struct seccomp_plan *filter =
            process->launch->filter != NULL ? process->launch->filter : &process->seccomp;
        int ret = seccomp_handover_new(filter, &handover, err);
        if (ret < 0)
            return ret;
    }
    int ret = creation_spawn(c, options, cgroup_fd, start_socket, handover, err);
    seccomp_handover_free(handover);
    return ret;
}

/* Carry out the steps between the record on disk and the goal. */
static int create_carry_out(struct creation *c, const struct create_options *options, struct error *err)
{
    cleanup_fd int cgroup_fd = -1;
    cleanup_fd int start_socket = -1;
    int ret = announce_capability(c, err);
    if (ret < 0)
        return ret;
    ret = make_cgroup(c, &cgroup_fd, err);
    if (ret < 0)
        return ret;
    log_step("make cgroup", c->record.cgroup.path);
    if (c->goal == CREATION_WAITS && (start_socket = listen_for_start(c, err)) < 0)
        return start_socket;
    ret = rootfs_prepare(c->plan.rootfs_plan, err);
    if (ret < 0)
        return ret;
    log_step("open root", c->plan.spec->root->path);
    if (c->plan.has_process && c->plan.other_user_namespace) {
        ret = rlimits_raise(&c->plan.process.rlimits, err);
        if (ret < 0)
            return ret;
    }
    return create_spawn(c, options, cgroup_fd, start_socket, err);
}

int creation_make(struct creation *c, const struct create_options *options, struct error *err)
{
    c->plan.process.die_with_runtime = options->die_with_runtime;
    fill_record(c, options);
    libraries_settle();
    int ret = write_record(c, err);
    if (c->dir < 0)
        return ret;
    log_step("write record", c->plan.id);
    if (ret == 0)
        ret = create_carry_out(c, options, err);
    rootfs_release(c->plan.rootfs_plan);
    if (ret < 0) {
        const struct deletion deletion = {.root = c->root,
                                          .dir = c->dir,
                                          .record = &c->record,
                                          .init = c->pidfd,
                                          .poststop = &c->plan.spec->hooks.poststop,
                                          .pid_file = options->pid_file};
        delete_failed(&deletion);
    }
    record_unlock(c->dir);
    return ret;
}

int creation_plan(const struct runtime_options *rt, const struct create_options *options,
                  const struct plan_source *source, enum creation_goal goal, struct creation *out,
                  struct error *err)
{
    struct plan_source of_bundle;
    *out = CREATION_NONE;
    out->goal = goal;
    bool makes = goal != CREATION_STAYS_A_PLAN;
    /* The first step, because the file is told of every error. A descriptor that is missing now may soon be
     * another one. */
    const unsigned socket = options->compare_fd != 0 ? options->compare_fd : options->snapshot_fd;
    int missing = socket != 0 && fcntl((int)socket, F_GETFD) < 0 ? errno : 0;
    out->status_file = makes ? status_file_open(options->status_file, err) : -1;
    if (makes && options->status_file != NULL && out->status_file < 0)
        return out->status_file;
    if (missing != 0)
        return error_set(err, -missing, "option '--%s': descriptor %u",
                         options->compare_fd != 0 ? "compare-fd" : "snapshot-fd", socket);
    if (source == NULL) {
        int ret = record_check_id(options->id, err);
        if (ret == 0)
            ret = plan_read(&out->arena, options, &of_bundle, err);
        if (ret < 0)
            return ret;
        source = &of_bundle;
    }
    out->root = record_open_root(record_root(&out->arena, rt->root), makes, err);
    if (out->root < 0 && makes)
        return out->root;
    int ret = plan_make(&out->arena, rt, options, source, out->root, &out->plan, err);
    /* The error may be about what another container of that name uses, such as its frozen cgroup. */
    if (ret < 0 && makes && record_check_new(out->root, options->id, err) < 0)
        return err->code;
    if (ret < 0 || !makes)
        return ret;
    log_step("plan", out->plan.bundle);
    out->pidfd_socket = pid_file_connect(options->pidfd_socket, err);
    if (options->pidfd_socket != NULL && out->pidfd_socket < 0)
        return out->pidfd_socket;
    if (!out->plan.has_process)
        return 0;
    bool foreground = goal == CREATION_RUNS && !options->detach;
    return terminal_plan(out->plan.spec->process, options->console_socket, foreground,
                         &out->plan.process.terminal, err);
}
