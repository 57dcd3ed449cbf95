/* Mount the container's /sys/fs/cgroup (cgroups(7), cgroup_namespaces(7)). The attributes go on the mount
 * alone, because the superblock of cgroup2 is the host's. */
#include "sandbox/mount/mounts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"
#include "sandbox/mount/attach.h"
#include "sandbox/mount/context.h"

/* Bind the part of the host's cgroup mount that the container may see. With a cgroup namespace it is the
 * container's own cgroup, as in a mount of cgroup2. Otherwise it is the whole tree. */
static int bind_host(const struct mount_plan *mount, const struct rootfs_context *context)
{
    char path[PATH_MAX];
    const char *own = context->cgroup_path != NULL ? context->cgroup_path : "";
    if (context->cgroup_mount == NULL || (context->new_cgroup && own[0] == '\0'))
        return -ENOENT;
    int n = snprintf(path, sizeof(path), "%s/%s", context->cgroup_mount, context->new_cgroup ? own : "");
    if (n < 0 || (size_t)n >= sizeof(path))
        return -ENAMETOOLONG;
    cleanup_fd int fd = mount_clone(AT_FDCWD, path, true, true, MOUNT_PEERS_SLAVE);
    if (fd < 0)
        return fd;
    uint64_t attrs = mount->fs.attrs & ~(uint64_t)MOUNT_ATTR__ATIME;
    /* Without its own cgroup namespace, a container in a user namespace sees the host's tree, so the mount is
     * never writable (CVE-2023-25809). */
    if (!context->new_cgroup && (context->user_namespace || context->runtime_in_userns))
        attrs |= MOUNT_ATTR_RDONLY;
    int ret = mount_set_attrs(fd, attrs, true);
    return ret < 0 ? ret : fd_steal(&fd);
}

int cgroup_mount_open(const struct mount_plan *mount, const struct rootfs_context *context, struct error *err)
{
    struct filesystem fs = {.type = "cgroup2", .source = "cgroup2", .attrs = mount->fs.attrs};
    int fd = filesystem_create(&fs, -1, err);
    if (fd != -EPERM && fd != -EBUSY)
        return fd;
    fd = bind_host(mount, context);
    if (fd >= 0)
        return fd;
    /* There is no cgroup mount to show, so use an empty directory in which no file can be made. */
    fs = (struct filesystem){.type = "tmpfs",
                             .source = "cgroup",
                             .attrs = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                      MOUNT_ATTR_NOEXEC};
    return filesystem_create(&fs, 0555, err);
}
