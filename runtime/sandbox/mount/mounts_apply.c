/* Child: make the mounts. Each is a detached mount with all its attributes before it is attached on a
 * descriptor below the root. So it can never be used without them. */
#include "sandbox/mount/mounts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/sys.h"
#include "sandbox/mount/attach.h"
#include "sandbox/mount/copy_up.h"
#include "sandbox/mount/target.h"

static int mounts_open_target(const struct mount_plan *m, int rootfd, enum mount_target_kind kind,
                              struct error *err)
{
    if (m->strict_target)
        return mount_target_open_strict(rootfd, m->target, err);
    if ((m->options.flags & MOUNT_FLAG_TARGET_NOFOLLOW) != 0)
        return mount_target_open_nofollow(rootfd, m->target, kind, err);
    return mount_target_open(rootfd, m->target, kind, err);
}

static int attach(struct mount_plan *m, int *fd, int target, struct error *err)
{
    int ret = mount_attach(*fd, target);
    if (ret == -EINVAL || ret == -ENOTDIR)
        return error_text(err, ret, "source and target are not both directories or both files");
    if (ret < 0)
        return error_set(err, ret, "attach the mount");
    if (m->protect_cgroups && (ret = mount_protect_cgroups(*fd)) < 0)
        return error_set(err, ret, "make the host's cgroups read-only");
    if (m->late_readonly || m->strict_target)
        m->mount_fd = fd_steal(fd);
    return 0;
}

static int apply_bind(const struct mounts_plan *plan, struct mount_plan *m, int rootfd, struct error *err)
{
    bool nofollow = (m->options.flags & MOUNT_FLAG_SOURCE_NOFOLLOW) != 0;
    bool prepared = m->source_fd >= 0;
    cleanup_fd int fd = fd_steal(&m->source_fd);
    if (!prepared)
        fd = mount_clone(AT_FDCWD, m->source, (m->options.flags & MOUNT_FLAG_RECURSIVE) != 0, nofollow,
                         mounts_bind_peers(plan, m));
    if (fd < 0)
        return error_set(err, fd, "mount source '%s'", m->source);
    /* The type of the target matters only if it is missing. */
    cleanup_fd int target = mounts_open_target(m, rootfd, MOUNT_TARGET_ANY, err);
    if (target == -ENOENT) {
        struct stat st;
        if (fstat(fd, &st) < 0)
            return error_set(err, -errno, "stat mount source '%s'", m->source);
        target = mounts_open_target(m, rootfd,
                                    S_ISDIR(st.st_mode) ? MOUNT_TARGET_DIRECTORY : MOUNT_TARGET_FILE, err);
    }
    if (target < 0)
        return target;
    int ret = 0;
    if (!prepared)
        ret = mount_set_options(fd, &m->options, m->late_readonly ? MOUNT_ATTR_RDONLY : 0, err);
    return ret < 0 ? ret : attach(m, &fd, target, err);
}

/* Label the root of an mqueue once it exists, because mqueue takes no context option. Without SELinux there
 * is nothing to do. */
static int label_mqueue(int fd, const char *label, struct error *err)
{
    cleanup_fd int root = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_set(err, -errno, "open the file system's root");
    if (fsetxattr(root, "security.selinux", label, strlen(label), 0) < 0 && errno != EOPNOTSUPP)
        return error_set(err, -errno, "set label '%s'", label);
    return 0;
}

static int set_propagation(const struct mount_plan *m, int fd, struct error *err)
{
    if (m->options.propagation == 0)
        return 0;
    int ret = mount_set_propagation(fd, m->options.propagation, m->options.propagation_recursive);
    return ret < 0 ? error_set(err, ret, "set mount propagation") : 0;
}

static int apply_legacy(const struct mount_plan *m, int rootfd, int target, struct error *err)
{
    int ret = filesystem_mount_legacy(&m->fs, target, false, err);
    if (ret < 0 || m->options.propagation == 0)
        return ret;
    cleanup_fd int mounted = path_open_in_root(rootfd, m->target, O_PATH, 0);
    if (mounted < 0)
        return error_set(err, mounted, "open the mount");
    return set_propagation(m, mounted, err);
}

/* Create a file system as a detached mount. mode: the mode of its root, or -1 for its default. */
static int make_filesystem(const struct mounts_plan *plan, struct mount_plan *m, int mode, struct error *err)
{
    cleanup_fd int fd = filesystem_create(&m->fs, mode, err);
    if (fd < 0)
        return mount_fallback_open(m, plan->context, fd, err);
    int ret = plan->label != NULL && str_eq(m->fs.type, "mqueue") ? label_mqueue(fd, plan->label, err) : 0;
    return ret < 0 ? ret : fd_steal(&fd);
}

static int apply_filesystem(const struct mounts_plan *plan, struct mount_plan *m, int rootfd,
                            struct error *err)
{
    /* A mount point that is made here has mode 0755, and a tmpfs on it the mode that the kernel gives it. */
    cleanup_fd int target =
        mounts_open_target(m, rootfd, m->inherit_mode ? MOUNT_TARGET_ANY : MOUNT_TARGET_DIRECTORY, err);
    const bool made = target == -ENOENT, inherits = m->inherit_mode && !made;
    if (made)
        target = mounts_open_target(m, rootfd, MOUNT_TARGET_DIRECTORY, err);
    if (target < 0)
        return target;
    cleanup_fd int fd = fd_steal(&m->source_fd);
    if (fd < 0 && m->fs.legacy_data != NULL)
        return apply_legacy(m, rootfd, target, err);
    int mode = -1;
    struct stat st;
    if (inherits) {
        if (fstat(target, &st) < 0)
            return error_set(err, -errno, "stat '%s'", m->target);
        mode = (int)(st.st_mode & 07777);
    }
    if (fd < 0)
        fd = make_filesystem(plan, m, mode, err);
    if (fd < 0)
        return fd;
    bool copy_up = (m->options.flags & MOUNT_FLAG_COPY_UP) != 0;
    int ret = copy_up ? tmpcopyup(target, fd, inherits, err) : 0;
    if (ret < 0)
        return ret;
    ret = set_propagation(m, fd, err);
    return ret < 0 ? ret : attach(m, &fd, target, err);
}

static int apply_cgroup(const struct mounts_plan *plan, struct mount_plan *m, int rootfd, struct error *err)
{
    cleanup_fd int target = mounts_open_target(m, rootfd, MOUNT_TARGET_DIRECTORY, err);
    if (target < 0)
        return target;
    cleanup_fd int fd = cgroup_mount_open(m, plan->context, err);
    int ret = fd < 0 ? fd : set_propagation(m, fd, err);
    return ret < 0 ? ret : attach(m, &fd, target, err);
}

static int apply_remount(const struct mount_plan *m, int rootfd, struct error *err)
{
    cleanup_fd int target = mounts_open_target(m, rootfd, MOUNT_TARGET_ANY, err);
    if (target == -ENOENT)
        return error_set(err, target, "remount '%s'", m->target);
    if (target < 0)
        return target;
    if (m->fs.data_count > 0)
        return filesystem_mount_legacy(&m->fs, target, true, err);
    return mount_set_options(target, &m->options, 0, err);
}

static int apply_symlink(const struct mount_plan *m, int rootfd, struct error *err)
{
    char dir[PATH_MAX], present[PATH_MAX];
    const char *slash = strrchr(m->target, '/');
    if (snprintf(dir, sizeof(dir), "%.*s", (int)(slash - m->target), m->target) >= (int)sizeof(dir))
        return error_set(err, -ENAMETOOLONG, "symbolic link '%s'", m->target);
    cleanup_fd int parent =
        mount_target_open(rootfd, dir[0] != '\0' ? dir : "/", MOUNT_TARGET_DIRECTORY, err);
    if (parent < 0)
        return parent;
    if (symlinkat(m->source, parent, slash + 1) == 0)
        return 0;
    int code = -errno;
    ssize_t n = readlinkat(parent, slash + 1, present, sizeof(present));
    if (code == -EEXIST && n == (ssize_t)strlen(m->source) && memcmp(present, m->source, (size_t)n) == 0)
        return 0;
    return error_set(err, code, "symbolic link to '%s'", m->source);
}

static int mounts_apply_one(const struct mounts_plan *plan, struct mount_plan *m, int rootfd,
                            struct error *err)
{
    switch (m->kind) {
    case MOUNT_KIND_FILESYSTEM:
        return apply_filesystem(plan, m, rootfd, err);
    case MOUNT_KIND_BIND:
        return apply_bind(plan, m, rootfd, err);
    case MOUNT_KIND_CGROUP:
        return apply_cgroup(plan, m, rootfd, err);
    case MOUNT_KIND_SYMLINK:
        return apply_symlink(m, rootfd, err);
    case MOUNT_KIND_REMOUNT:
        return apply_remount(m, rootfd, err);
    }
    return error_set(err, -EINVAL, "unknown kind of mount");
}

static int apply_those(struct mounts_plan *plan, bool late, int rootfd, struct error *err)
{
    for (size_t i = 0; i < plan->count; i++) {
        struct mount_plan *m = &plan->items[i];
        if (m->late == late && mounts_apply_one(plan, m, rootfd, err) < 0)
            return error_wrap(err, "mounts[%zu] ('%s')", i, m->target);
    }
    return 0;
}

int mounts_apply(struct mounts_plan *plan, int rootfd, struct error *err)
{
    return apply_those(plan, false, rootfd, err);
}

int mounts_apply_late(struct mounts_plan *plan, int rootfd, struct error *err)
{
    return apply_those(plan, true, rootfd, err);
}

int mounts_finish(struct mounts_plan *plan, struct error *err)
{
    for (size_t i = 0; i < plan->count; i++) {
        struct mount_plan *m = &plan->items[i];
        if (m->mount_fd < 0 || !m->late_readonly)
            continue;
        bool recursive = (m->options.recursive.set & MOUNT_ATTR_RDONLY) != 0;
        int ret = mount_set_attrs(m->mount_fd, MOUNT_ATTR_RDONLY, recursive);
        if (!m->strict_target)
            fd_close(&m->mount_fd);
        if (ret < 0)
            return error_set(err, ret, "mounts[%zu] ('%s'): make read-only", i, m->target);
    }
    return 0;
}

/* Return the rest of the path below the target: empty, or with a leading slash. NULL: the path is not below
 * it. */
static const char *mounts_beneath(const char *path, const char *target)
{
    const char *rest = str_after(path, target);
    return rest != NULL && (*rest == '/' || *rest == '\0') ? rest : NULL;
}

int mounts_open(const struct mounts_plan *plan, int rootfd, const char *path)
{
    const struct mount_plan *place = NULL;
    for (size_t i = 0; i < plan->count; i++) {
        const struct mount_plan *m = &plan->items[i];
        if (m->strict_target && m->mount_fd >= 0 && mounts_beneath(path, m->target) != NULL)
            place = m;
        else if (place != NULL && m->kind != MOUNT_KIND_REMOUNT && m->kind != MOUNT_KIND_SYMLINK &&
                 mounts_beneath(place->target, m->target) != NULL)
            place = NULL; /* another mount covers it */
    }
    if (place == NULL)
        return path_open_in_root(rootfd, path, O_PATH, 0);
    const char *rest = mounts_beneath(path, place->target);
    return path_open_in_root(place->mount_fd, *rest != '\0' ? rest : "/", O_PATH, 0);
}
