/* Signal, stop and continue a whole cgroup (cgroup.freeze: Linux 5.2, cgroup.kill: 5.14). */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "cgroup/cgroup.h"
#include "cgroup/tree.h"

/* A process in an uninterruptible wait (a dead NFS server) cannot be stopped, so the wait is limited. */
#define FREEZE_TIMEOUT_MS 10000

static int write_freeze(const struct cgroup_ref *ref, int dirfd, const char *value, struct error *err)
{
    int ret = io_write_value_at(dirfd, "cgroup.freeze", value);
    if (ret < 0)
        return error_set(err, ret, "write '%s' to '%s%s/cgroup.freeze'", value, ref->mount, ref->path);
    return 0;
}

int cgroup_freeze(const struct cgroup_ref *ref, struct error *err)
{
    cleanup_fd int dirfd = cgroup_open(ref, NULL, err);
    if (dirfd < 0)
        return dirfd;
    int ret = write_freeze(ref, dirfd, "1", err);
    if (ret < 0)
        return ret;
    ret = cgroup_tree_wait(dirfd, "frozen", 1, FREEZE_TIMEOUT_MS);
    if (ret < 0) {
        (void)io_write_value_at(dirfd, "cgroup.freeze", "0");
        return error_set(err, ret, "wait for the processes of cgroup '%s' to stop", ref->path);
    }
    return 0;
}

int cgroup_thaw(const struct cgroup_ref *ref, struct error *err)
{
    cleanup_fd int dirfd = cgroup_open(ref, NULL, err);
    return dirfd < 0 ? dirfd : write_freeze(ref, dirfd, "0", err);
}

static int is_frozen(int dirfd)
{
    char value[8];
    ssize_t n = io_read_small_at(dirfd, "cgroup.freeze", value, sizeof(value));
    if (n < 0)
        return n == -ENOENT || n == -ENODEV ? 0 : (int)n;
    return value[0] == '1';
}

int cgroup_frozen(const struct cgroup_ref *ref)
{
    if (ref->manager == CGROUP_MANAGER_DISABLED)
        return 0;
    cleanup_fd int dirfd = cgroup_tree_open(ref->mount, ref->path);
    if (dirfd < 0)
        return dirfd == -ENOENT ? 0 : dirfd;
    return is_frozen(dirfd);
}

static int signal_listed(int dirfd, int sig)
{
    cleanup_free pid_t *pids = NULL;
    size_t count = 0, reached = 0;
    int ret = cgroup_tree_pids(dirfd, &pids, &count);
    for (size_t i = 0; ret == 0 && i < count; i++) {
        if (kill(pids[i], sig) == 0)
            reached++;
        else if (errno != ESRCH)
            ret = -errno;
    }
    /* The cgroup has processes that this pid namespace does not show. */
    uint64_t populated = 0;
    if (ret == 0 && reached == 0 && cgroup_tree_value(dirfd, "cgroup.events", "populated", &populated) == 0 &&
        populated != 0)
        return -ESRCH;
    return ret;
}

/* Freeze the processes meanwhile, so that none forks a child that is not in the list. Do not thaw a cgroup
 * that another process has frozen. */
static int signal_all(int dirfd, int sig)
{
    bool ours = sig != 0 && is_frozen(dirfd) == 0 && io_write_value_at(dirfd, "cgroup.freeze", "1") == 0;
    if (ours)
        (void)cgroup_tree_wait(dirfd, "frozen", 1, 1000);
    int ret = signal_listed(dirfd, sig);
    if (ours)
        (void)io_write_value_at(dirfd, "cgroup.freeze", "0");
    return ret;
}

static int signal_populated(int dirfd, int sig)
{
    uint64_t populated;
    int ret = cgroup_tree_value(dirfd, "cgroup.events", "populated", &populated);
    if (ret < 0 || populated == 0)
        return ret;
    return sig == SIGKILL ? cgroup_tree_kill(dirfd) : signal_all(dirfd, sig);
}

int cgroup_kill(const struct cgroup_ref *ref, int sig, struct error *err)
{
    cleanup_fd int dirfd = cgroup_open(ref, NULL, err);
    if (dirfd < 0)
        return dirfd == -ENOENT ? 0 : dirfd;
    int ret = signal_populated(dirfd, sig);
    if (ret < 0 && ret != -ENOENT && ret != -ENODEV)
        return error_set(err, ret, "send signal %d to the processes of cgroup '%s'", sig, ref->path);
    return 0;
}

int cgroup_pids(struct arena *a, const struct cgroup_ref *ref, pid_t **pids, size_t *count, struct error *err)
{
    cleanup_fd int dirfd = cgroup_open(ref, NULL, err);
    if (dirfd < 0)
        return dirfd;
    cleanup_free pid_t *list = NULL;
    int ret = cgroup_tree_pids(dirfd, &list, count);
    if (ret < 0)
        return error_set(err, ret, "list the processes of cgroup '%s'", ref->path);
    *pids = ARENA_ARRAY(a, *count, pid_t);
    if (*count > 0)
        memcpy(*pids, list, *count * sizeof(*list));
    return 0;
}
