/* The steps of a deletion, and `delete`. */
#include "container/delete.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sys.h"
#include "container/hooks.h"
#include "container/lifecycle.h"
#include "container/record.h"
#include "container/record_copies.h"
#include "sandbox/mount/rootfs.h"

/* How long a killed init may take to end, in milliseconds. */
#define KILL_TIMEOUT_MS 10000
/* How long a minimal init may take to end after its program, in milliseconds. */
#define INIT_TIMEOUT_MS 500

/* Kill the child of a failed creation and wait for it. */
static int kill_child(const struct deletion *d, struct error *err)
{
    siginfo_t info;
    (void)err;
    sys_pidfd_send_signal(d->init, SIGKILL, NULL, 0);
    RETRY(waitid(P_PIDFD, (id_t)d->init, &info, WEXITED));
    if (d->pid_file != NULL)
        unlink(d->pid_file);
    return 0;
}

/* Let a minimal init reap the program and end by itself: the kernel counts the CPU time of processes only if
 * they are reaped. An init that does not end in time is killed with all the others. */
static void kill_program(const struct record *record, int init)
{
    if (!record->has_init || cgroup_frozen(&record->cgroup) > 0)
        return;
    cleanup_fd int program = record_program(record);
    if (program < 0 || sys_pidfd_send_signal(program, SIGKILL, NULL, 0) < 0)
        return;
    struct pollfd p = {.fd = init, .events = POLLIN};
    (void)!RETRY(poll(&p, 1, INIT_TIMEOUT_MS));
}

int delete_kill_init(const struct record *record, struct error *err)
{
    cleanup_fd int pidfd = record_pidfd(record);
    if (pidfd == -ESRCH)
        return 0;
    if (pidfd < 0)
        return error_set(err, pidfd, "find the process of container '%s'", record->id);
    kill_program(record, pidfd);
    if (sys_pidfd_send_signal(pidfd, SIGKILL, NULL, 0) < 0)
        return errno == ESRCH ? 0 : error_set(err, -errno, "kill container '%s'", record->id);
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int n = RETRY(poll(&p, 1, KILL_TIMEOUT_MS));
    if (n == 0)
        return error_text(err, -ETIMEDOUT, "process %d of container '%s' does not end after SIGKILL",
                          (int)record->pid, record->id);
    return n < 0 ? error_set(err, -errno, "wait for process %d", (int)record->pid) : 0;
}

static int kill_init(const struct deletion *d, struct error *err)
{
    return d->init >= 0 ? kill_child(d, err) : delete_kill_init(d->record, err);
}

static int remove_cgroup(const struct deletion *d, struct error *err)
{
    /* A record names a process only after its cgroup was made. */
    bool recorded = d->init < 0 && d->record->pid > 0;
    if (recorded || record_owns_cgroup(d->dir))
        return cgroup_destroy(&d->record->cgroup, err);
    cgroup_discard(&d->record->cgroup);
    return 0;
}

static int detach_root(const struct deletion *d, struct error *err)
{
    return d->record->chrooted ? rootfs_detach(d->record->rootfs, d->record->mount_namespace, err) : 0;
}

/* Run the poststop hooks. The specification: after a failure that follows the creation of the namespaces, the
 * container is destroyed and its poststop hooks run. */
static int run_poststop(const struct deletion *d, struct error *err)
{
    cleanup_arena struct arena a = {0};
    struct spec *spec;
    struct hook_run run = {.kind = "poststop", .status = "stopped", .cwd = d->record->bundle};
    if (d->poststop != NULL && d->init >= 0)
        hooks_run_all(d->poststop, &run, d->record);
    if (d->poststop != NULL || !d->record->has_poststop)
        return 0;
    if (saved_spec(&a, d->dir, d->record, &spec, err) < 0)
        log_notice("poststop hooks: %s", err->text);
    else
        hooks_run_all(&spec->hooks.poststop, &run, d->record);
    return 0;
}

static int remove_record(const struct deletion *d, struct error *err)
{
    return record_remove_dir(d->root, d->dir, d->record->id, err);
}

static int (*const steps[])(const struct deletion *d, struct error *err) = {
    kill_init, remove_cgroup, detach_root, run_poststop, remove_record};
#define STEP_COUNT (sizeof(steps) / sizeof(steps[0]))

int delete_recorded(int root, int dir, const struct record *record, struct error *err)
{
    const struct deletion deletion = {.root = root, .dir = dir, .record = record, .init = -1};
    for (size_t i = 0; i < STEP_COUNT; i++) {
        int ret = steps[i](&deletion, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

void delete_failed(const struct deletion *deletion)
{
    for (size_t i = 0; i < STEP_COUNT; i++) {
        struct error err = {0};
        if (steps[i](deletion, &err) < 0)
            log_warning("%s", err.text);
    }
}

/* Check that the container is stopped, or created and never started. Without force, delete refuses any
 * other. */
static int delete_check_status(int dir, const struct record *record, struct error *err)
{
    enum status status = record_status(dir, record);
    if (status == STATUS_STOPPED || status == STATUS_CREATED)
        return 0;
    return error_text(err, -EBUSY, "cannot delete container '%s': it is %s (kill it first, or use --force)",
                      record->id, status_name(status));
}

static int delete_in(struct arena *a, int root, const char *id, bool force, struct error *err)
{
    struct record record;
    cleanup_fd int dir = record_open_dir(root, id, err);
    if (dir < 0)
        return dir;
    int ret = record_lock(dir, id, err);
    /* Force continues in spite of a creation or a hook that hangs. */
    if (ret < 0 && !(ret == -EBUSY && force))
        return ret;
    ret = record_read(a, dir, id, &record, err);
    /* A create that was killed before its first record leaves an empty directory. */
    if (ret == -ENOENT && force)
        return record_remove_dir(root, dir, id, err);
    if (ret == 0 && !force)
        ret = delete_check_status(dir, &record, err);
    return ret < 0 ? ret : delete_recorded(root, dir, &record, err);
}

/* Delete the container with this id from the state root of these options. -ENOENT with a text if there is
 * none. */
static int delete_by_id(const struct runtime_options *rt, const char *id, bool force, struct error *err)
{
    cleanup_arena struct arena a = {0};
    cleanup_fd int root = record_open_root(record_root(&a, rt->root), false, err);
    if (root == -ENOENT)
        return error_text(err, root, "container '%s' does not exist", id);
    return root < 0 ? root : delete_in(&a, root, id, force, err);
}

int container_delete(const struct runtime_options *rt, const char *id, bool force, struct error *err)
{
    cleanup_arena struct arena a = {0};
    int ret = record_check_id(id, err);
    if (ret < 0)
        return ret;
    ret = delete_by_id(rt, id, force, err);
    if (!force)
        return ret;
    delete_quietly(rt, record_companion_id(&a, id));
    return ret == -ENOENT ? 0 : ret;
}

void delete_quietly(const struct runtime_options *rt, const char *id)
{
    struct error ignored = {0};
    (void)delete_by_id(rt, id, true, &ignored);
}
