/* Order the steps from plan to pivot. mounts, devices and masks carry them out. */
#include "sandbox/mount/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/json_out.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/sys.h"
#include "sandbox/mount/attach.h"
#include "sandbox/mount/devices.h"
#include "sandbox/mount/masks.h"
#include "sandbox/mount/mounts.h"
#include "spec/spec.h"

#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x00002000
#endif

/* With ten thousand mounts, mountinfo has about 2 MiB. */
#define MOUNTINFO_MAX ((size_t)16 * 1024 * 1024)

struct rootfs_plan {
    struct rootfs_context context;
    const char *path; /* absolute, on the host */
    bool readonly;
    const char *propagation_word; /* linux.rootfsPropagation; NULL: none given */
    unsigned long propagation;
    bool propagation_recursive;
    struct mounts_plan mounts;
    struct devices_plan devices;
    struct masks_plan masks;
    int fd; /* detached after rootfs_prepare, attached after rootfs_mount; else -1 */
};

static bool stays_shared(const struct rootfs_plan *plan)
{
    return plan->propagation == MS_SHARED;
}

int rootfs_plan(struct arena *a, const struct spec *spec, const struct rootfs_context *context,
                struct rootfs_plan **out, struct error *err)
{
    struct rootfs_plan *plan = ARENA_NEW(a, struct rootfs_plan);
    plan->context = *context;
    plan->fd = -1;
    plan->propagation_word = spec->linux_->rootfs_propagation;
    if (spec->root == NULL || spec->root->path == NULL || spec->root->path[0] == '\0')
        return error_text(err, -EINVAL, "root.path is missing");
    plan->path = path_join(a, context->bundle, spec->root->path);
    plan->readonly = spec->root->readonly;
    if (plan->propagation_word != NULL && plan->propagation_word[0] != '\0' &&
        !mount_options_propagation(plan->propagation_word, &plan->propagation, &plan->propagation_recursive))
        return error_text(err, -EINVAL, "linux.rootfsPropagation: '%s' is not a kind of propagation",
                          plan->propagation_word);
    int ret = mounts_plan(a, spec, &plan->context, &plan->mounts, err);
    if (ret < 0)
        return ret;
    const struct mount_plan *dev = mounts_at(&plan->mounts, "/dev");
    ret = devices_plan(a, spec, &plan->context, dev != NULL && dev->kind == MOUNT_KIND_BIND, &plan->devices,
                       err);
    if (ret < 0)
        return ret;
    plan->devices.label_key = plan->mounts.label_key;
    plan->devices.label = plan->mounts.label;
    ret = masks_plan(a, spec->linux_, plan->mounts.label_key, plan->mounts.label, &plan->masks, err);
    if (ret < 0)
        return ret;
    *out = plan;
    return 0;
}

/* Open a detached clone of the root with the mounts in it. If it was opened in the host's namespace
 * (`detach_peers`), it must not stay a peer of the host's mounts. Moreover, pivot_root(2) refuses a shared
 * root. */
static int open_root(const struct rootfs_plan *plan, bool detach_peers, struct error *err)
{
    bool shared = stays_shared(plan);
    cleanup_fd int fd = mount_clone(AT_FDCWD, plan->path, true, false,
                                    detach_peers && !shared ? MOUNT_PEERS_SLAVE : MOUNT_PEERS_KEEP);
    if (fd < 0)
        return error_set(err, fd, "root file system '%s'", plan->path);
    int ret = shared ? mount_set_propagation(fd, MS_PRIVATE, false) : 0;
    return ret < 0 ? error_set(err, ret, "set the propagation of the root file system") : fd_steal(&fd);
}

struct preparation {
    struct rootfs_plan *plan;
    struct error *err;
};

static int rootfs_prepare_here(void *data)
{
    const struct preparation *p = data;
    struct rootfs_plan *plan = p->plan;
    if (plan->context.user_namespace && plan->context.parent_privileged) {
        int fd = open_root(plan, true, p->err);
        if (fd < 0)
            return fd;
        plan->fd = fd;
    }
    int ret = mounts_prepare(&plan->mounts, p->err);
    return ret < 0 ? ret : devices_prepare(&plan->devices, p->err);
}

int rootfs_prepare(struct rootfs_plan *plan, struct error *err)
{
    struct preparation p = {plan, err};
    bool opens =
        (plan->context.user_namespace && plan->context.parent_privileged) || mounts_idmapped(&plan->mounts);
    return opens && mount_namespaces_pinned() ? mount_apart(rootfs_prepare_here, &p, err)
                                              : rootfs_prepare_here(&p);
}

void rootfs_release(struct rootfs_plan *plan)
{
    fd_close(&plan->fd);
    mounts_release(&plan->mounts);
    devices_release(&plan->devices);
}

/* Make the mount that holds `path` private. pivot_root(2) refuses a root whose parent mount is shared, and a
 * mount attached to a shared one appears on the host. Only the root of a mount can be changed, so search it
 * upwards from `path`. */
static int make_parent_private(const char *path, struct error *err)
{
    cleanup_fd int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0) {
        struct statx st;
        if (statx(fd, "", AT_EMPTY_PATH, 0, &st) < 0)
            break;
        if ((st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) {
            int ret = mount_set_propagation(fd, MS_PRIVATE, false);
            return ret < 0 ? error_set(err, ret, "make the mount that holds '%s' private", path) : 0;
        }
        int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        fd_close(&fd);
        fd = up;
    }
    return error_set(err, -errno, "find the mount that holds '%s'", path);
}

static int attach_on(const struct rootfs_plan *plan, const char *path, struct error *err)
{
    if (stays_shared(plan)) {
        int ret = make_parent_private(path, err);
        if (ret < 0)
            return ret;
    }
    if (sys_move_mount(plan->fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_SYMLINKS) < 0)
        return error_set(err, -errno, "attach the root file system on '%s'", path);
    return 0;
}

/* Attach the root at its origin, so that createContainer hooks find the container's mounts at root.path. In a
 * user namespace that path may be out of reach. Then attach it on top of "/", which suffices for pivot_root,
 * and where no path lookup of this process sees it. */
static int attach_root(struct rootfs_plan *plan, struct error *err)
{
    int ret = attach_on(plan, plan->path, err);
    if (ret == -EACCES)
        ret = attach_on(plan, "/", err);
    return ret;
}

int rootfs_mount(struct rootfs_plan *plan, struct error *err)
{
    struct mount_attr slave = {.propagation = MS_SLAVE};
    if (plan->context.new_mount && !stays_shared(plan) &&
        sys_mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &slave, sizeof(slave)) < 0)
        return error_set(err, -errno, "make the mounts of the host slaves");
    if (plan->fd < 0)
        plan->fd = open_root(plan, !plan->context.new_mount, err);
    if (plan->fd < 0)
        return plan->fd;
    int ret = attach_root(plan, err);
    if (ret < 0)
        return ret;
    /* Modes are those of config.json. The process' own umask is set much later. */
    mode_t mask = umask(0);
    ret = mounts_apply(&plan->mounts, plan->fd, err);
    umask(mask);
    return ret;
}

static int mount_rest(struct rootfs_plan *plan, struct error *err)
{
    int ret = mounts_apply_late(&plan->mounts, plan->fd, err);
    return ret < 0 ? ret : devices_apply(&plan->devices, plan->fd, err);
}

int rootfs_mount_late(struct rootfs_plan *plan, struct error *err)
{
    mode_t mask = umask(0);
    int ret = mount_rest(plan, err);
    umask(mask);
    return ret;
}

int rootfs_fd(const struct rootfs_plan *plan)
{
    return plan->fd;
}

static int finish_mounts(struct rootfs_plan *plan, struct error *err)
{
    int ret = mounts_finish(&plan->mounts, err);
    return ret < 0 ? ret : masks_apply(&plan->masks, &plan->mounts, plan->fd, err);
}

int rootfs_finish(struct rootfs_plan *plan, struct error *err)
{
    int ret = finish_mounts(plan, err);
    mounts_release(&plan->mounts);
    if (ret < 0 || !plan->readonly)
        return ret;
    ret = mount_set_attrs(plan->fd, MOUNT_ATTR_RDONLY, false);
    return ret < 0 ? error_set(err, ret, "make the root file system read-only") : 0;
}

/* Enter the root by pivot_root(".", "."). It stacks the old root on the new one at "/", from where it is
 * detached (pivot_root(2), "pivot_root(".", ".")"). */
static int enter_by_pivot(const struct rootfs_plan *plan, struct error *err)
{
    cleanup_fd int old = stays_shared(plan) ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (stays_shared(plan) && old < 0)
        return error_set(err, -errno, "open the host's root");
    if (sys_pivot_root(".", ".") < 0)
        return error_set(err, -errno, "pivot_root to '%s'", plan->path);
    /* Make the old root a slave, because otherwise the host would lose its mounts with the container. */
    int ret = old >= 0 ? mount_set_propagation(old, MS_SLAVE, true) : 0;
    if (ret < 0)
        return error_set(err, ret, "detach the host's root");
    return umount2(".", MNT_DETACH) < 0 ? error_set(err, -errno, "detach the host's root") : 0;
}

/* Unmount the host's `path` in this namespace only: a mount that is shared with the host becomes a slave
 * first. A mount that is locked in a user namespace (mount_namespaces(7)) is covered instead. The kernel does
 * not count covered mounts as visible in nested namespaces. */
static int hide(const char *path)
{
    struct mount_attr slave = {.propagation = MS_SLAVE};
    if (sys_mount_setattr(AT_FDCWD, path, AT_RECURSIVE, &slave, sizeof(slave)) < 0)
        return errno == EINVAL || errno == ENOENT ? 0 : -errno; /* EINVAL: not a mount */
    if (umount2(path, MNT_DETACH) == 0)
        return 0;
    if (errno != EINVAL)
        return -errno;
    return mount("none", path, "tmpfs", MS_RDONLY, NULL) < 0 ? -errno : 0;
}

/* Return the place of a mount that shows the host's processes or devices, from a line of mountinfo, or NULL:
 * "ID PARENT MAJOR:MINOR ROOT PLACE … - TYPE SOURCE OPTIONS". */
static const char *revealing_place(char *line)
{
    const char *type = strstr(line, " - ");
    if (type == NULL || (str_after(type, " - proc ") == NULL && str_after(type, " - sysfs ") == NULL))
        return NULL;
    char *save = NULL, *field = strtok_r(line, " ", &save);
    for (int i = 0; i < 4 && field != NULL; i++)
        field = strtok_r(NULL, " ", &save);
    if (field != NULL)
        str_unescape_octal(field);
    return field;
}

/* Hide all proc and sysfs mounts of the host. As long as a complete one is mounted, the kernel would let a
 * nested user namespace mount another, without the masks. Of mounts stacked at one place the newest comes
 * first, which is the last line. The working directory is the container's root; it is "/" if that lies on top
 * of the host's, where no path leads to its mounts. */
static int hide_revealing(struct arena *a, struct error *err)
{
    char root[PATH_MAX], *text;
    size_t size;
    cleanup_fd int fd = proc_open("self/mountinfo", O_RDONLY, err);
    if (fd < 0)
        return fd;
    int ret = io_read_fd(a, fd, MOUNTINFO_MAX, &text, &size);
    if (ret < 0)
        return error_set(err, ret, "read '/proc/self/mountinfo'");
    if (getcwd(root, sizeof(root)) == NULL)
        return error_set(err, -errno, "find the path of the root file system");
    for (char *end = text + size; end != NULL;) {
        *end = '\0';
        end = memrchr(text, '\n', (size_t)(end - text));
        const char *place = revealing_place(end != NULL ? end + 1 : text);
        const char *below = place != NULL && !str_eq(root, "/") ? str_after(place, root) : NULL;
        if (place == NULL || (below != NULL && (*below == '\0' || *below == '/')))
            continue;
        if ((ret = hide(place)) < 0)
            return error_set(err, ret, "unmount the host's '%s'", place);
    }
    return 0;
}

/* Enter the root by moving it over "/": the initial ramdisk cannot be pivoted. */
static int enter_by_move(const struct rootfs_plan *plan, struct error *err)
{
    struct arena a = {0};
    int ret = stays_shared(plan) ? make_parent_private("/", err) : 0;
    if (ret == 0)
        ret = hide_revealing(&a, err);
    arena_free(&a);
    if (ret < 0)
        return ret;
    if (sys_move_mount(plan->fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return error_set(err, -errno, "move '%s' to '/'", plan->path);
    if (chroot(".") < 0)
        return error_set(err, -errno, "chroot to '%s'", plan->path);
    return 0;
}

/* Enter the root by chroot(2) only: other processes share the mount namespace, so only this process may
 * change its root. */
static int enter_by_chroot(const struct rootfs_plan *plan, struct error *err)
{
    return chroot(".") < 0 ? error_set(err, -errno, "chroot to '%s'", plan->path) : 0;
}

static int enter_root(const struct rootfs_plan *plan, struct error *err)
{
    if (!plan->context.new_mount)
        return enter_by_chroot(plan, err);
    return plan->context.no_pivot ? enter_by_move(plan, err) : enter_by_pivot(plan, err);
}

int rootfs_pivot(struct rootfs_plan *plan, struct error *err)
{
    if (fchdir(plan->fd) < 0)
        return error_set(err, -errno, "chdir to '%s'", plan->path);
    int ret = enter_root(plan, err);
    if (ret < 0)
        return ret;
    if (plan->propagation != 0 &&
        (ret = mount_set_propagation(plan->fd, plan->propagation, plan->propagation_recursive)) < 0)
        return error_set(err, ret, "linux.rootfsPropagation '%s'", plan->propagation_word);
    fd_close(&plan->fd);
    return chdir("/") < 0 ? error_set(err, -errno, "chdir to '/'") : 0;
}

static int unmount_root(const char *path, const char *mount_namespace, struct error *err)
{
    cleanup_fd int fd = mount_namespace != NULL ? open(mount_namespace, O_RDONLY | O_CLOEXEC) : -1;
    if (mount_namespace != NULL && fd < 0)
        return errno == ENOENT ? 0 : error_set(err, -errno, "open mount namespace '%s'", mount_namespace);
    if (fd >= 0 && setns(fd, CLONE_NEWNS) < 0)
        return error_set(err, -errno, "enter mount namespace '%s'", mount_namespace);
    if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 && errno != EINVAL && errno != ENOENT)
        return error_set(err, -errno, "unmount '%s'", path);
    return 0;
}

int rootfs_detach(const char *path, const char *mount_namespace, struct error *err)
{
    if (mount_namespace == NULL)
        return unmount_root(path, NULL, err);
    /* A child does it, because only a process that does not share its root and working directory may change
     * its mount namespace. Besides, the runtime could not easily come back. */
    pid_t child = fork();
    if (child < 0)
        return error_set(err, -errno, "fork");
    if (child == 0)
        _exit(unmount_root(path, mount_namespace, NULL) < 0 ? 1 : 0);
    int status = 0;
    RETRY(waitpid(child, &status, 0));
    if (status != 0)
        return error_text(err, -EIO, "cannot unmount '%s' in mount namespace '%s'", path, mount_namespace);
    return 0;
}

static const char *way_in(const struct rootfs_plan *plan)
{
    return !plan->context.new_mount ? "chroot" : plan->context.no_pivot ? "move" : "pivot_root";
}

void rootfs_describe(const struct rootfs_plan *plan, struct json_out *out)
{
    json_out_map_open(out);
    json_out_pair_string(out, "root", plan->path);
    json_out_pair_bool(out, "readonly", plan->readonly);
    json_out_pair_string(out, "propagation", plan->propagation_word);
    json_out_pair_string(out, "enter", way_in(plan));
    if (plan->mounts.label != NULL) {
        json_out_pair_string(out, "labelOption", plan->mounts.label_key);
        json_out_pair_string(out, "label", plan->mounts.label);
    }
    json_out_key(out, "mounts");
    mounts_describe(&plan->mounts, out);
    devices_describe(&plan->devices, out);
    masks_describe(&plan->masks, out);
    json_out_map_close(out);
}
