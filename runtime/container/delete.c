/* delete: processes, cgroup, resctrl groups, poststop hooks and state, in that order. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sys.h"
#include "container/delete.h"
#include "container/hooks.h"
#include "container/lifecycle.h"
#include "container/saved.h"
#include "container/template.h"
#include "sandbox/intelrdt.h"
#include "sandbox/mount/rootfs.h"

/* How long a killed init may take to be gone. */
#define KILL_TIMEOUT_MS 10000

static int kill_init(const struct record *record, struct error *err)
{
    cleanup_fd int pidfd = record_pidfd(record);
    if (pidfd == -ESRCH)
        return 0;
    if (pidfd < 0)
        return error_set(err, pidfd, "find the process of container '%s'", record->id);
    if (sys_pidfd_send_signal(pidfd, SIGKILL, NULL, 0) < 0)
        return errno == ESRCH ? 0 : error_set(err, -errno, "kill container '%s'", record->id);
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int n = RETRY(poll(&p, 1, KILL_TIMEOUT_MS));
    if (n == 0)
        return error_text(err, -ETIMEDOUT, "process %d of container '%s' does not end after SIGKILL",
                          (int)record->pid, record->id);
    return n < 0 ? error_set(err, -errno, "wait for process %d", (int)record->pid) : 0;
}

static void run_poststop(int dir, const struct record *record)
{
    if (!record->has_poststop)
        return;
    struct arena a = {0};
    struct error err = {0};
    struct spec *spec;
    struct hook_run run = {.kind = "poststop", .status = "stopped", .cwd = record->bundle};
    if (saved_spec(&a, dir, record, &spec, &err) == 0)
        hooks_run_all(&spec->hooks.poststop, &run, record);
    else
        log_warning("poststop hooks: %s", err.text);
    arena_free(&a);
}

static int remove_rdt(const struct record *record, struct error *err)
{
    if (!record->rdt_made.group && !record->rdt_made.monitor)
        return 0;
    cleanup_fd int root = intelrdt_open(err);
    return root < 0 ? root
                    : intelrdt_destroy(record->rdt_group, record->rdt_monitor, &record->rdt_made, root, err);
}

int delete_recorded(int root, int dir, const struct record *record, struct error *err)
{
    int ret = kill_init(record, err);
    if (ret == 0)
        ret = cgroup_destroy(&record->cgroup, err);
    if (ret == 0)
        ret = remove_rdt(record, err);
    if (ret == 0 && record->chrooted)
        ret = rootfs_detach(record->rootfs, record->mount_namespace, err);
    if (ret < 0)
        return ret;
    run_poststop(dir, record);
    return record_remove_dir(root, dir, record->id, err);
}

/* Not by force only what has no process to lose goes: a container that was created but never started may. */
static int check_status(int dir, const struct record *record, struct error *err)
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
    /* A creation or a hook that hangs is what force is for. */
    if (ret < 0 && !(ret == -EBUSY && force))
        return ret;
    ret = record_read(a, dir, &record, err);
    /* A create that was killed before its first record leaves a directory and nothing else. */
    if (ret == -ENOENT && force)
        return record_remove_dir(root, dir, id, err);
    if (ret == 0 && !force)
        ret = check_status(dir, &record, err);
    return ret < 0 ? ret : delete_recorded(root, dir, &record, err);
}

int container_delete(const struct runtime_options *rt, const char *id, bool force, struct error *err)
{
    struct arena a = {0};
    int ret = record_check_id(id, err);
    if (ret == 0) {
        cleanup_fd int root = record_open_root(record_root(&a, rt->root), false, err);
        if (root == -ENOENT)
            ret = error_text(err, root, "container '%s' does not exist", id);
        else
            ret = root < 0 ? root : delete_in(&a, root, id, force, err);
        /* What a runtime that was killed while it made the container's snapshot left. */
        struct error ignored = {0};
        if (root >= 0 && force)
            delete_in(&a, root, template_id(&a, id), true, &ignored);
    }
    arena_free(&a);
    return ret == -ENOENT && force ? 0 : ret;
}

void template_delete(const struct runtime_options *rt, const char *id)
{
    struct arena a = {0};
    struct error ignored = {0};
    cleanup_fd int root = record_open_root(record_root(&a, rt->root), false, &ignored);
    if (root >= 0)
        delete_in(&a, root, id, true, &ignored);
    arena_free(&a);
}
