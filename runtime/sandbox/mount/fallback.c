/* Bind the host's sysfs, mqueue or proc instead of mounting a new one. Only the owner of the network, ipc or
 * pid namespace that they show may mount them. The kernel refuses that with EPERM in a user namespace that
 * does not own it. */
#include "sandbox/mount/mounts.h"

#include <errno.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "sandbox/mount/attach.h"
#include "sandbox/mount/context.h"

struct fallback {
    const char *type, *host_path;
};
static const struct fallback fallbacks[] = {
    {"sysfs", "/sys"},
    {"mqueue", "/dev/mqueue"},
    {"proc", "/proc"},
};

static const struct fallback *find_fallback(const char *type)
{
    for (size_t i = 0; i < sizeof(fallbacks) / sizeof(fallbacks[0]); i++)
        if (str_eq(fallbacks[i].type, type))
            return &fallbacks[i];
    return NULL;
}

int mount_fallback_open(struct mount_plan *mount, const struct rootfs_context *context, int code,
                        struct error *err)
{
    const struct fallback *f = find_fallback(mount->fs.type);
    if (f == NULL || code != -EPERM)
        return code;
    /* A bind would show the processes of another pid namespace, so report the error. It occurs if the runtime
     * is itself in a container whose /proc is partly masked (user_namespaces(7)). */
    if (str_eq(f->type, "proc") && context->new_pid)
        return error_classify(
            err, ERROR_PROC_MASKED,
            error_text(err, code,
                       "proc is not permitted here: a new procfs may not show more than the one the runtime "
                       "sees, whose parts are masked"));
    cleanup_fd int fd = mount_clone(AT_FDCWD, f->host_path, true, true, MOUNT_PEERS_SLAVE);
    if (fd < 0)
        return error_set(err, fd, "%s is not permitted here, and neither is a bind of '%s'", f->type,
                         f->host_path);
    /* The access time settings may be locked, and they do not matter to these file systems. */
    int ret = mount_set_attrs(fd, mount->fs.attrs & ~(uint64_t)MOUNT_ATTR__ATIME, true);
    if (ret < 0)
        return error_set(err, ret, "restrict the bind of '%s'", f->host_path);
    mount->protect_cgroups = str_eq(f->type, "sysfs");
    return fd_steal(&fd);
}
