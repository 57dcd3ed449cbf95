/* The manager "cgroupfs": the runtime itself creates and removes directories (cgroups(7)). */
#include "cgroup/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "cgroup/limits.h"
#include "cgroup/tree.h"
#include "cgroup/types.h"

#define EMPTY_TIMEOUT_MS 5000

/* Give the cgroup to its manager inside the container, a user: the directory, and the files that the kernel
 * lists as safe to delegate (config-linux.md, "Cgroup ownership"). */
static int delegate(int dirfd, uint32_t uid, struct error *err)
{
    /* Kernels before 4.15 have no such list. */
    char list[1024] = "cgroup.procs\ncgroup.threads\ncgroup.subtree_control";
    char present[sizeof(list)];
    if (io_read_small_at(AT_FDCWD, "/sys/kernel/cgroup/delegate", present, sizeof(present)) > 0)
        memcpy(list, present, sizeof(list));
    if (fchownat(dirfd, "", uid, (gid_t)-1, AT_EMPTY_PATH) < 0)
        return error_set(err, -errno, "make user %u the owner of the cgroup", uid);
    char *save = NULL;
    for (char *name = strtok_r(list, "\n", &save); name != NULL; name = strtok_r(NULL, "\n", &save))
        if (fchownat(dirfd, name, uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0 && errno != ENOENT)
            return error_set(err, -errno, "make user %u the owner of cgroup file '%s'", uid, name);
    return 0;
}

int cgroup_fs_configure(const struct cgroup_plan *plan, const char *path, size_t top, int dirfd,
                        struct error *err)
{
    struct cgroup_obstacle obstacle;
    cgroup_controllers_enable(plan->ref.mount, path, top, dirfd, &obstacle);
    int ret = cgroup_limits_write(&plan->ref, dirfd, &plan->writes, &obstacle, err);
    return ret == 0 && plan->delegate ? delegate(dirfd, plan->owner_uid, err) : ret;
}

/* Create the directory `path` below root and its missing parents. *made is the length of the part of the path
 * that existed before, or the whole length if nothing was created. */
static int make_path(int root, const char *path, size_t *made)
{
    size_t length = strlen(path);
    char name[PATH_MAX];
    if (length >= sizeof(name))
        return -ENAMETOOLONG;
    memcpy(name, path, length + 1);
    char *slash = strrchr(name, '/');
    if (mkdirat(root, name, 0755) == 0) {
        *made = slash != NULL ? (size_t)(slash - name) : 0;
        return 0;
    }
    *made = length;
    if (errno != ENOENT)
        return errno == EEXIST ? 0 : -errno;
    for (size_t end = 0; end < length;) {
        size_t start = end;
        end += strspn(name + end, "/");
        end += strcspn(name + end, "/");
        name[end] = '\0';
        int ret = mkdirat(root, name, 0755) == 0 ? 0 : -errno;
        name[end] = path[end];
        if (ret == 0 && *made == length)
            *made = start;
        else if (ret < 0 && ret != -EEXIST)
            return ret;
    }
    return 0;
}

/* Remove the directories that make_path created, deepest first. */
static void unmake_path(int root, const char *path, size_t made)
{
    char name[PATH_MAX];
    snprintf(name, sizeof(name), "%s", path);
    for (size_t end = strlen(name); end > made;) {
        name[end] = '\0';
        if (unlinkat(root, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
            return;
        while (end > made && name[end] != '/')
            end--;
    }
}

/* An existing cgroup is used unchanged, including its limits, because an administrator may have prepared it.
 * One with processes is refused, because they would be killed with the container. */
static int check_unused(const struct cgroup_ref *ref, int dirfd, struct error *err)
{
    uint64_t populated;
    int ret = cgroup_tree_value(dirfd, "cgroup.events", "populated", &populated);
    if (ret == -ENOENT)
        return error_set(err, -EINVAL, "'%s' is the root cgroup: the container needs another one", ref->path);
    if (ret == 0 && populated != 0)
        return error_set(err, -EINVAL, "cgroup '%s' is in use: it has processes", ref->path);
    return ret < 0 ? error_set(err, ret, "read 'cgroup.events' of cgroup '%s'", ref->path) : 0;
}

/* Open and set up the cgroup, which existed before if `existed`. */
static int fs_prepare(const struct cgroup_plan *plan, bool existed, int *dirfd, struct error *err)
{
    const struct cgroup_ref *ref = &plan->ref;
    cleanup_fd int fd = cgroup_tree_open(ref->mount, ref->path);
    if (fd < 0)
        return error_set(err, fd, "open cgroup '%s%s'", ref->mount, ref->path);
    int ret = existed ? check_unused(ref, fd, err) : 0;
    if (ret < 0)
        return ret;
    ret = cgroup_fs_configure(plan, ref->path, 0, fd, err);
    if (ret < 0)
        return ret;
    *dirfd = fd_steal(&fd);
    return 0;
}

int cgroup_fs_create(const struct cgroup_plan *plan, int *dirfd, struct error *err)
{
    const struct cgroup_ref *ref = &plan->ref;
    const char *path = ref->path + strspn(ref->path, "/");
    cleanup_fd int root = open(ref->mount, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_set(err, -errno, "open '%s'", ref->mount);
    size_t made = strlen(path);
    int ret = path[0] != '\0' ? make_path(root, path, &made) : 0;
    if (ret < 0) {
        unmake_path(root, path, made);
        return error_set(err, ret, "make cgroup '%s%s'", ref->mount, ref->path);
    }
    ret = fs_prepare(plan, path[made] == '\0', dirfd, err);
    if (ret < 0)
        unmake_path(root, path, made);
    return ret;
}

static int report_survivors(const struct cgroup_ref *ref, int dirfd, int code, struct error *err)
{
    char text[256] = "";
    cleanup_free pid_t *pids = NULL;
    size_t count = 0, used = 0;
    if (cgroup_tree_pids(dirfd, &pids, &count) == 0)
        for (size_t i = 0; i < count && used + 16 < sizeof(text); i++)
            used += (size_t)snprintf(text + used, sizeof(text) - used, " %d", (int)pids[i]);
    return error_set(err, code, "processes of cgroup '%s' did not end:%s", ref->path,
                     text[0] != '\0' ? text : " (none is visible in this pid namespace)");
}

static int remove_directory(const char *name, int dirfd)
{
    for (int64_t deadline = cgroup_now_ms() + EMPTY_TIMEOUT_MS;;) {
        int ret = cgroup_tree_clear(dirfd);
        if (ret == 0 && rmdir(name) < 0)
            ret = -errno;
        if (ret == 0 || ret == -ENOENT || ret == -ENODEV)
            return 0;
        /* New cgroups or processes appear as fast as they are removed, or the kernel has not yet released the
         * old ones. */
        if (ret != -EBUSY || cgroup_now_ms() > deadline)
            return ret;
        (void)cgroup_tree_kill(dirfd);
        (void)cgroup_tree_wait(dirfd, "populated", 0, 100);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

static int end_processes(int dirfd)
{
    int ret = cgroup_tree_wait(dirfd, "populated", 0, 0);
    if (ret != -ETIMEDOUT)
        return ret;
    ret = cgroup_tree_kill(dirfd);
    return ret < 0 ? ret : cgroup_tree_wait(dirfd, "populated", 0, EMPTY_TIMEOUT_MS);
}

/* Kill the processes and wait. *dirfd is -1 if the cgroup does not exist or no longer exists. */
static int empty(const struct cgroup_ref *ref, int *dirfd, struct error *err)
{
    *dirfd = -1;
    cleanup_fd int fd = cgroup_tree_open(ref->mount, ref->path);
    if (fd < 0)
        return fd == -ENOENT ? 0 : error_set(err, fd, "open cgroup '%s%s'", ref->mount, ref->path);
    int ret = end_processes(fd);
    if (ret == -ETIMEDOUT)
        return report_survivors(ref, fd, ret, err);
    if (ret == -ENOENT || ret == -ENODEV)
        return 0;
    if (ret < 0)
        return error_set(err, ret, "kill the processes of cgroup '%s%s'", ref->mount, ref->path);
    *dirfd = fd_steal(&fd);
    return 0;
}

/* Return whether there is nothing to remove: no cgroup, or one that never belonged to a container alone. */
static bool is_nowhere(const struct cgroup_ref *ref)
{
    return ref->mount == NULL || ref->path[strspn(ref->path, "/")] == '\0';
}

int cgroup_fs_empty(const struct cgroup_ref *ref, struct error *err)
{
    cleanup_fd int dirfd = -1;
    return is_nowhere(ref) ? 0 : empty(ref, &dirfd, err);
}

int cgroup_fs_destroy(const struct cgroup_ref *ref, struct error *err)
{
    char name[PATH_MAX];
    if (is_nowhere(ref))
        return 0;
    if (snprintf(name, sizeof(name), "%s%s", ref->mount, ref->path) >= (int)sizeof(name))
        return error_set(err, -ENAMETOOLONG, "remove cgroup '%s'", ref->path);
    /* The usual case: all processes have ended, and there is no child cgroup. */
    if (rmdir(name) == 0 || errno == ENOENT)
        return 0;
    cleanup_fd int dirfd = -1;
    int ret = empty(ref, &dirfd, err);
    if (ret < 0 || dirfd < 0)
        return ret;
    ret = remove_directory(name, dirfd);
    return ret < 0 ? error_set(err, ret, "remove cgroup '%s'", name) : 0;
}

void cgroup_fs_discard(const struct cgroup_ref *ref)
{
    char name[PATH_MAX];
    if (!is_nowhere(ref) && snprintf(name, sizeof(name), "%s%s", ref->mount, ref->path) < (int)sizeof(name))
        (void)rmdir(name);
}
