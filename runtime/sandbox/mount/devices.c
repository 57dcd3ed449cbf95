/* Create device nodes and links in /dev. */
#include "sandbox/mount/devices.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json_out.h"
#include "base/path.h"
#include "base/str.h"
#include "base/sys.h"
#include "sandbox/mount/attach.h"
#include "sandbox/mount/context.h"
#include "sandbox/mount/filesystem.h"
#include "spec/spec.h"

/* The default devices of the runtime specification. terminal.c adds console. */
static const struct {
    const char *path;
    unsigned major, minor;
} default_devices[] = {
    {"/dev/null", 1, 3},   {"/dev/zero", 1, 5},    {"/dev/full", 1, 7},
    {"/dev/random", 1, 8}, {"/dev/urandom", 1, 9}, {"/dev/tty", 5, 0},
};
#define DEFAULT_COUNT (sizeof(default_devices) / sizeof(default_devices[0]))

static const struct {
    const char *name, *target;
} links[] = {
    {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
};

static void devices_split_path(struct arena *a, struct device_plan *d)
{
    const char *slash = strrchr(d->path, '/');
    d->dir = slash == d->path ? "/" : arena_strndup(a, d->path, (size_t)(slash - d->path));
    d->name = slash + 1;
}

static void finish_device(struct arena *a, const struct rootfs_context *context, struct device_plan *d)
{
    devices_split_path(a, d);
    d->source_fd = -1;
    d->bind = !S_ISFIFO(d->mode) && (context->user_namespace || context->runtime_in_userns);
    d->host_path =
        arena_printf(a, "/dev/%s/%u:%u", S_ISBLK(d->mode) ? "block" : "char", major(d->rdev), minor(d->rdev));
}

static int plan_device(struct arena *a, const struct spec_device *in, struct device_plan *d,
                       struct error *err)
{
    mode_t type;
    if (str_eq(in->type, "c") || str_eq(in->type, "u"))
        type = S_IFCHR;
    else if (str_eq(in->type, "b"))
        type = S_IFBLK;
    else if (str_eq(in->type, "p"))
        type = S_IFIFO;
    else
        return error_text(err, -EINVAL, "type '%s' is none of c, u, b, p", in->type != NULL ? in->type : "");
    if (in->path == NULL || in->path[0] != '/')
        return error_text(err, -EINVAL, "path '%s' is not absolute", in->path != NULL ? in->path : "");
    if (type != S_IFIFO && (!in->major.set || !in->minor.set || in->major.value < 0 || in->minor.value < 0 ||
                            in->major.value > UINT32_MAX || in->minor.value > UINT32_MAX))
        return error_text(err, -EINVAL, "'%s' needs major and minor numbers", in->path);
    *d = (struct device_plan){
        .path = path_clean(a, in->path),
        .mode = type | (in->file_mode.set ? (mode_t)in->file_mode.value & 07777 : 0666),
        .rdev = type == S_IFIFO ? 0 : makedev((unsigned)in->major.value, (unsigned)in->minor.value),
        .uid = in->uid.set ? (uid_t)in->uid.value : 0,
        .gid = in->gid.set ? (gid_t)in->gid.value : 0,
    };
    if (d->path[1] == '\0')
        return error_text(err, -EINVAL, "'/' cannot be a device");
    return 0;
}

/* Translate an id of the container to the host's id. An id that the container does not map stays the same: an
 * engine copies it from a node of the host. */
static uint32_t host_id(const struct spec_idmaps *maps, uint32_t id)
{
    for (size_t i = 0; i < maps->count; i++) {
        const struct spec_idmap *m = &maps->items[i];
        if (id >= m->container_id && id - m->container_id < m->size)
            return m->host_id + (id - m->container_id);
    }
    return id;
}

/* Plan to make the nodes outside of the container. A bind of the host's node would have the host's mode, and
 * an owner that the container does not map. */
static void plan_outside(const struct spec *spec, const struct rootfs_context *context, struct device_plan *d)
{
    d->make = d->bind && context->parent_privileged && !context->runtime_in_userns;
    d->host_uid = host_id(&spec->linux_->uid_mappings, d->uid);
    d->host_gid = host_id(&spec->linux_->gid_mappings, d->gid);
}

static bool has_device(const struct spec *spec, const char *path)
{
    for (size_t i = 0; i < spec->linux_->devices.count; i++)
        if (str_eq(spec->linux_->devices.items[i].path, path))
            return true;
    return false;
}

int devices_plan(struct arena *a, const struct spec *spec, const struct rootfs_context *context,
                 bool host_dev, struct devices_plan *out, struct error *err)
{
    const struct spec_devices *in = &spec->linux_->devices;
    bool has_core = access("/proc/kcore", F_OK) == 0;
    if (!has_core && errno != ENOENT)
        return error_set(err, -errno, "look for '/proc/kcore'");
    *out = (struct devices_plan){
        .items = ARENA_ARRAY(a, in->count + DEFAULT_COUNT, struct device_plan),
        .links = !host_dev,
        .core_link = !host_dev && has_core,
        .prepare = context->user_namespace && context->parent_privileged,
        .nodes = -1,
    };
    for (size_t i = 0; i < DEFAULT_COUNT && !host_dev; i++) {
        if (has_device(spec, default_devices[i].path))
            continue;
        struct device_plan *d = &out->items[out->count++];
        *d = (struct device_plan){
            .path = default_devices[i].path,
            .mode = S_IFCHR | 0666,
            .rdev = makedev(default_devices[i].major, default_devices[i].minor),
            .if_dev_exists = true,
        };
        finish_device(a, context, d);
    }
    for (size_t i = 0; i < in->count; i++) {
        struct device_plan *d = &out->items[out->count];
        if (plan_device(a, &in->items[i], d, err) < 0)
            return error_wrap(err, "linux.devices[%zu]", i);
        if (host_dev && str_after(d->path, "/dev/") != NULL)
            continue;
        finish_device(a, context, d);
        plan_outside(spec, context, d);
        out->count++;
    }
    return 0;
}

/* Open the host's node by its number: a clone that is certain to be this device. */
static int open_host_node(const struct device_plan *d, struct error *err)
{
    const char *const paths[] = {d->path, d->host_path};
    int code = -ENOENT;
    for (size_t i = 0; i < 2; i++) {
        cleanup_fd int fd = mount_clone(AT_FDCWD, paths[i], false, false, MOUNT_PEERS_PRIVATE);
        struct stat st;
        if (fd < 0) {
            code = fd == -ENOENT ? code : fd;
            continue;
        }
        if (fstat(fd, &st) < 0)
            return error_set(err, -errno, "stat host device '%s'", paths[i]);
        if ((st.st_mode & S_IFMT) != (d->mode & S_IFMT) || st.st_rdev != d->rdev)
            continue;
        int ret = mount_set_attrs(fd, MOUNT_ATTRS_DEVICE, false);
        return ret < 0 ? error_set(err, ret, "restrict the bind of device '%s'", d->path) : fd_steal(&fd);
    }
    if (code != -ENOENT) /* no descriptor is left, for example: the host may well have it */
        return error_set(err, code, "clone the host's device '%s' (%u:%u)", d->path, major(d->rdev),
                         minor(d->rdev));
    return error_set(
        err, code,
        "device '%s' (%u:%u) cannot be made in a user namespace, and the host has none to bind at "
        "'%s' or '%s'",
        d->path, major(d->rdev), minor(d->rdev), d->path, d->host_path);
}

/* The names of these nodes are their positions in the plan. */
struct node_name {
    char text[24];
};

static struct node_name name_node(const struct devices_plan *plan, const struct device_plan *d)
{
    struct node_name name;
    snprintf(name.text, sizeof(name.text), "%zu", (size_t)(d - plan->items));
    return name;
}

static int make_nodes(struct devices_plan *plan, struct error *err)
{
    const struct filesystem fs = {
        .type = "tmpfs",
        .source = "devices",
        .attrs = MOUNT_ATTRS_DEVICE,
        .label_key = plan->label_key,
        .label = plan->label,
    };
    return plan->nodes = filesystem_create(&fs, 0755, err);
}

/* Make a node regardless of the umask. If the runtime lacks CAP_MKNOD, this is no error: the host's node is
 * bound instead. */
static int make_outside(struct devices_plan *plan, struct device_plan *d, struct error *err)
{
    const struct node_name name = name_node(plan, d);
    if (plan->nodes < 0 && make_nodes(plan, err) < 0)
        return plan->nodes;
    if (mknodat(plan->nodes, name.text, d->mode, d->rdev) < 0) {
        d->make = errno != EPERM;
        return d->make ? error_set(err, -errno, "make device '%s'", d->path) : 0;
    }
    if (fchownat(plan->nodes, name.text, d->host_uid, d->host_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        fchmodat(plan->nodes, name.text, d->mode & 07777, 0) < 0)
        return error_set(err, -errno, "set owner and mode of device '%s'", d->path);
    return 0;
}

int devices_prepare(struct devices_plan *plan, struct error *err)
{
    for (size_t i = 0; plan->prepare && i < plan->count; i++) {
        struct device_plan *d = &plan->items[i];
        int ret = d->make ? make_outside(plan, d, err) : 0;
        if (ret < 0)
            return ret;
        if (!d->bind || d->make)
            continue;
        int fd = open_host_node(d, err);
        if (fd < 0)
            return fd;
        d->source_fd = fd;
    }
    return 0;
}

void devices_release(struct devices_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        fd_close(&plan->items[i].source_fd);
    fd_close(&plan->nodes);
}

static int bind_node(struct device_plan *d, int target, struct error *err)
{
    cleanup_fd int fd = fd_steal(&d->source_fd);
    if (fd < 0)
        fd = open_host_node(d, err);
    if (fd < 0)
        return fd;
    int ret = mount_attach(fd, target);
    return ret < 0 ? error_set(err, ret, "bind device '%s'", d->path) : 0;
}

static int use_existing(struct device_plan *d, int dir, struct error *err)
{
    struct stat st;
    cleanup_fd int fd = openat(dir, d->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set(err, -errno, "device '%s'", d->path);
    if ((st.st_mode & S_IFMT) == (d->mode & S_IFMT) && st.st_rdev == d->rdev)
        return 0;
    if (S_ISREG(st.st_mode) && !S_ISFIFO(d->mode))
        return bind_node(d, fd, err);
    return error_text(err, -EEXIST,
                      "'%s' exists in the root file system and is not the device asked for: refusing to use "
                      "it",
                      d->path);
}

static int bind_new(struct device_plan *d, int dir, struct error *err)
{
    cleanup_fd int target = openat(dir, d->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (target < 0 && errno == EEXIST)
        return use_existing(d, dir, err);
    if (target < 0)
        return error_set(err, -errno, "make '%s'", d->path);
    return bind_node(d, target, err);
}

/* Set the owner by descriptor and check the number, because another file may have taken the name. */
static int give_owner(const struct device_plan *d, int dir, struct error *err)
{
    struct stat st;
    cleanup_fd int fd = openat(dir, d->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set(err, -errno, "set the owner of device '%s'", d->path);
    if ((st.st_mode & S_IFMT) != (d->mode & S_IFMT) || st.st_rdev != d->rdev)
        return error_text(err, -EEXIST, "device '%s' was replaced while it was made", d->path);
    if (fchownat(fd, "", d->uid, d->gid, AT_EMPTY_PATH) < 0)
        return error_set(err, -errno, "set the owner of device '%s'", d->path);
    return 0;
}

static int make_device(struct device_plan *d, int dir, struct error *err)
{
    if (d->bind)
        return bind_new(d, dir, err);
    if (mknodat(dir, d->name, d->mode, d->rdev) < 0) {
        if (errno == EEXIST)
            return use_existing(d, dir, err);
        if (errno == EPERM && !S_ISFIFO(d->mode))
            return bind_new(d, dir, err);
        return error_set(err, -errno, "make device '%s'", d->path);
    }
    return d->uid != 0 || d->gid != 0 ? give_owner(d, dir, err) : 0;
}

static int make_links(const struct devices_plan *plan, int dev, struct error *err)
{
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
        if (symlinkat(links[i].target, dev, links[i].name) < 0 && errno != EEXIST)
            return error_set(err, -errno, "link '/dev/%s'", links[i].name);
    if (plan->core_link && symlinkat("/proc/kcore", dev, "core") < 0 && errno != EEXIST)
        return error_set(err, -errno, "link '/dev/core'");
    return 0;
}

/* Open detached clones of the nodes that the parent made. Kernels before 6.15 clone only attached mounts. So
 * the file system is attached over the root for a moment; its descriptor reaches the root. */
static int open_made(struct devices_plan *plan, int rootfd, struct error *err)
{
    cleanup_fd int nodes = fd_steal(&plan->nodes);
    int ret = mount_attach(nodes, rootfd);
    if (ret < 0)
        return error_set(err, ret, "attach the file system of devices");
    for (size_t i = 0; i < plan->count; i++) {
        struct device_plan *d = &plan->items[i];
        if (!d->make)
            continue;
        int fd = mount_clone(nodes, name_node(plan, d).text, false, true, MOUNT_PEERS_PRIVATE);
        if (fd < 0)
            return error_set(err, fd, "device '%s'", d->path);
        d->source_fd = fd;
    }
    /* Not by way of the working directory: the container's root may not be allowed to come back to it. */
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", nodes);
    if (umount2(path, MNT_DETACH) < 0)
        return error_set(err, -errno, "detach the file system of devices");
    return 0;
}

int devices_apply(struct devices_plan *plan, int rootfd, struct error *err)
{
    int ret = plan->nodes >= 0 ? open_made(plan, rootfd, err) : 0;
    if (ret < 0)
        return ret;
    cleanup_fd int dev = path_open_in_root(rootfd, "/dev", O_PATH | O_DIRECTORY, 0);
    if (dev < 0 && dev != -ENOENT)
        return error_set(err, dev, "open '/dev' in the root file system");
    for (size_t i = 0; i < plan->count; i++) {
        struct device_plan *d = &plan->items[i];
        if (d->if_dev_exists && dev < 0)
            continue;
        bool elsewhere = dev < 0 || !str_eq(d->dir, "/dev");
        cleanup_fd int made = elsewhere ? path_mkdir_in_root(rootfd, d->dir, 0755) : -1;
        int dir = elsewhere ? made : dev;
        if (dir < 0)
            return error_set(err, dir, "make '%s'", d->dir);
        ret = make_device(d, dir, err);
        if (ret < 0)
            return ret;
    }
    return plan->links && dev >= 0 ? make_links(plan, dev, err) : 0;
}

static void describe_links(const struct devices_plan *plan, struct json_out *out)
{
    json_out_key(out, "deviceLinks");
    json_out_array_open(out);
    for (size_t i = 0; plan->links && i < sizeof(links) / sizeof(links[0]); i++)
        json_out_string(out, links[i].name);
    if (plan->core_link)
        json_out_string(out, "core");
    json_out_array_close(out);
}

void devices_describe(const struct devices_plan *plan, struct json_out *out)
{
    json_out_key(out, "devices");
    json_out_array_open(out);
    for (size_t i = 0; i < plan->count; i++) {
        const struct device_plan *d = &plan->items[i];
        char mode[8];
        snprintf(mode, sizeof(mode), "%04o", (unsigned)(d->mode & 07777));
        json_out_map_open(out);
        json_out_pair_string(out, "path", d->path);
        json_out_pair_string(out, "type", S_ISBLK(d->mode) ? "b" : S_ISFIFO(d->mode) ? "p" : "c");
        if (!S_ISFIFO(d->mode)) {
            json_out_pair_u64(out, "major", major(d->rdev));
            json_out_pair_u64(out, "minor", minor(d->rdev));
        }
        json_out_pair_string(out, "mode", mode);
        json_out_pair_u64(out, "uid", d->uid);
        json_out_pair_u64(out, "gid", d->gid);
        json_out_pair_string(out, "by", d->bind && !d->make ? "bind" : "mknod");
        if (d->make) {
            json_out_pair_u64(out, "hostUid", d->host_uid);
            json_out_pair_u64(out, "hostGid", d->host_gid);
        }
        if (d->if_dev_exists)
            json_out_pair_bool(out, "ifDevExists", true);
        json_out_map_close(out);
    }
    json_out_array_close(out);
    describe_links(plan, out);
}
