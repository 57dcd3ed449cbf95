/* Apply masked and read-only paths. */
#include "sandbox/mount/masks.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json_out.h"
#include "base/path.h"
#include "base/sys.h"
#include "sandbox/mount/attach.h"
#include "sandbox/mount/filesystem.h"
#include "sandbox/mount/mounts.h"

/* The files that cover masked paths. Each is opened when it is first needed. */
struct covers {
    int null;      /* O_PATH of the host's /dev/null */
    int directory; /* the empty tmpfs, attached on the first masked directory */
};

static void close_covers(struct covers *covers)
{
    fd_close(&covers->null);
    fd_close(&covers->directory);
}
#define cleanup_covers __attribute__((cleanup(close_covers)))

static int masks_plan_paths(struct arena *a, const struct str_list *in, const char *name, const char ***out,
                            size_t *count, struct error *err)
{
    *out = ARENA_ARRAY(a, in->count, const char *);
    for (size_t i = 0; i < in->count; i++) {
        if (in->items[i][0] != '/')
            return error_text(err, -EINVAL, "linux.%s[%zu]: '%s' is not an absolute path", name, i,
                              in->items[i]);
        (*out)[i] = path_clean(a, in->items[i]);
        /* A mount on the root is not seen, because the lookup of a path begins beneath it. */
        if (strcmp((*out)[i], "/") == 0)
            return error_text(err, -EINVAL, "linux.%s[%zu]: '%s' is the container's root: use root.readonly",
                              name, i, in->items[i]);
    }
    *count = in->count;
    return 0;
}

int masks_plan(struct arena *a, const struct spec_linux *linux_, const char *label_key, const char *label,
               struct masks_plan *out, struct error *err)
{
    *out = (struct masks_plan){.label_key = label_key, .label = label};
    int ret =
        masks_plan_paths(a, &linux_->masked_paths, "maskedPaths", &out->masked, &out->masked_count, err);
    if (ret < 0)
        return ret;
    return masks_plan_paths(a, &linux_->readonly_paths, "readonlyPaths", &out->readonly, &out->readonly_count,
                            err);
}

static bool out_of_reach(int code)
{
    return code == -ENOENT || code == -ENOTDIR || code == -EACCES;
}

static int make_readonly(const struct mounts_plan *mounts, int rootfd, const char *path, struct error *err)
{
    cleanup_fd int target = mounts_open(mounts, rootfd, path);
    if (out_of_reach(target))
        return 0;
    if (target < 0)
        return error_set(err, target, "read-only path '%s'", path);
    /* Keep the peer group: the path is in the container's own mounts, and a volume may be shared on request.
     */
    cleanup_fd int fd = mount_clone(target, "", true, false, MOUNT_PEERS_KEEP);
    int ret = fd < 0 ? fd : mount_set_attrs(fd, MOUNT_ATTR_RDONLY, true);
    if (ret < 0)
        return error_set(err, ret, "make '%s' read-only", path);
    ret = mount_attach(fd, target);
    return ret < 0 ? error_set(err, ret, "make '%s' read-only", path) : 0;
}

static int clone_null(struct covers *covers, struct error *err)
{
    if (covers->null < 0) {
        struct stat st;
        cleanup_fd int fd = open("/dev/null", O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
            return error_set(err, -errno, "open the host's '/dev/null'");
        if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3))
            return error_text(err, -EINVAL,
                              "the host's '/dev/null' is not the device 1:3: refusing to mask "
                              "with it");
        covers->null = fd_steal(&fd);
    }
    const struct mount_options options = {.attrs.set = MOUNT_ATTRS_DEVICE, .propagation = MS_PRIVATE};
    cleanup_fd int fd = mount_clone(covers->null, "", false, false, MOUNT_PEERS_KEEP);
    if (fd < 0)
        return error_set(err, fd, "bind the host's '/dev/null'");
    if (mount_set_options(fd, &options, 0, err) < 0)
        return error_wrap(err, "bind the host's '/dev/null'");
    return fd_steal(&fd);
}

static int mask_file(struct covers *covers, int target, const char *path, struct error *err)
{
    cleanup_fd int fd = clone_null(covers, err);
    if (fd < 0)
        return fd;
    int ret = mount_attach(fd, target);
    return ret < 0 ? error_set(err, ret, "mask '%s'", path) : 0;
}

/* Cover a directory with the empty tmpfs. All directories share one superblock, because a hundred of them
 * would delay the end of the container. The mount is attached before it is cloned, because kernels before
 * 6.15 do not clone detached mounts. */
static int mask_directory(const struct masks_plan *plan, struct covers *covers, int target, const char *path,
                          struct error *err)
{
    const struct filesystem empty = {
        .type = "tmpfs",
        .source = "masked",
        .attrs = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
        .super = MS_RDONLY,
        .label_key = plan->label_key,
        .label = plan->label,
    };
    bool first = covers->directory < 0;
    cleanup_fd int fd = first ? filesystem_create(&empty, 0555, err)
                              : mount_clone(covers->directory, "", false, false, MOUNT_PEERS_PRIVATE);
    if (fd < 0)
        return first ? fd : error_set(err, fd, "mask '%s'", path);
    int ret = mount_attach(fd, target);
    if (ret < 0)
        return error_set(err, ret, "mask '%s'", path);
    if (first)
        covers->directory = fd_steal(&fd);
    return 0;
}

static int mask(const struct masks_plan *plan, struct covers *covers, int target, const char *path,
                struct error *err)
{
    struct stat st;
    if (out_of_reach(target))
        return 0;
    if (target < 0)
        return error_set(err, target, "masked path '%s'", path);
    if (fstat(target, &st) < 0)
        return error_set(err, -errno, "masked path '%s'", path);
    return S_ISDIR(st.st_mode) ? mask_directory(plan, covers, target, path, err)
                               : mask_file(covers, target, path, err);
}

int masks_apply(const struct masks_plan *plan, const struct mounts_plan *mounts, int rootfd,
                struct error *err)
{
    cleanup_covers struct covers covers = {.null = -1, .directory = -1};
    for (size_t i = 0; i < plan->readonly_count; i++) {
        int ret = make_readonly(mounts, rootfd, plan->readonly[i], err);
        if (ret < 0)
            return ret;
    }
    for (size_t i = 0; i < plan->masked_count; i++) {
        cleanup_fd int target = mounts_open(mounts, rootfd, plan->masked[i]);
        int ret = mask(plan, &covers, target, plan->masked[i], err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static void describe_paths(const char *key, const char **paths, size_t count, struct json_out *out)
{
    json_out_key(out, key);
    json_out_array_open(out);
    for (size_t i = 0; i < count; i++)
        json_out_string(out, paths[i]);
    json_out_array_close(out);
}

void masks_describe(const struct masks_plan *plan, struct json_out *out)
{
    describe_paths("maskedPaths", plan->masked, plan->masked_count, out);
    describe_paths("readonlyPaths", plan->readonly, plan->readonly_count, out);
}
