/* The mounts of config.json: sorted and checked by the parent, carried out by the child. */
#ifndef PYSBX_SANDBOX_MOUNT_MOUNTS_H
#define PYSBX_SANDBOX_MOUNT_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/mount/attach.h"
#include "sandbox/mount/filesystem.h"
#include "sandbox/mount/idmapped.h"
#include "sandbox/mount/options.h"

struct arena;
struct error;
struct json_out;
struct rootfs_context;
struct spec;

enum mount_kind {
    MOUNT_KIND_FILESYSTEM, /* a new instance: tmpfs, proc, overlay, … */
    MOUNT_KIND_BIND,
    MOUNT_KIND_CGROUP,
    MOUNT_KIND_SYMLINK, /* copy-symlink whose source is one: nothing is mounted */
    MOUNT_KIND_REMOUNT,
};

struct mount_plan {
    enum mount_kind kind;
    const char *target; /* absolute, clean, in the container */
    const char *source; /* bind: absolute on the host; symlink: its content */
    struct mount_options options;
    struct filesystem fs; /* of all kinds but bind and symlink */
    struct idmap_mount idmap;
    bool idmapped;
    bool strict_target; /* no symbolic link on the way: /proc and /sys */
    /* The host's /sys with all in it, in a user namespace: its cgroups are made read-only once it is
     * attached. */
    bool protect_cgroups;
    bool inherit_mode; /* tmpfs without mode=: as the directory it covers */
    /* Something will be made below a read-only mount: it becomes read-only in mounts_finish. */
    bool late_readonly;
    /* The first sysfs or cgroup, and all that come behind it: they show the network and the cgroup namespace,
     * which are made meanwhile. */
    bool late;
    int source_fd; /* detached clone made by mounts_prepare, options applied; else -1 */
    int mount_fd;  /* kept for mounts_finish and, of /proc and /sys, for mounts_open; else -1 */
};

struct mounts_plan {
    struct mount_plan *items;
    size_t count;
    const struct rootfs_context *context;
    const char *label_key, *label; /* SELinux context of new file systems; label NULL: none */
    /* Binds opened in the host's mount namespace would stay peers of the host's mounts: they become slaves
     * unless linux.rootfsPropagation is shared. */
    bool detach_peers;
};

int mounts_plan(struct arena *a, const struct spec *spec, const struct rootfs_context *context,
                struct mounts_plan *out, struct error *err);

/* Parent: open bind sources the child could not reach and make the id-mapped ones. Both: close what is kept
 * open of them and of mounts; the child when nothing has to be found beneath these any more. */
int mounts_prepare(struct mounts_plan *plan, struct error *err);
void mounts_release(struct mounts_plan *plan);

/* Return how the clone for a bind relates to the host's peer group: it leaves it, unless the mount or
 * linux.rootfsPropagation asks for a shared one. */
enum mount_peers mounts_bind_peers(const struct mounts_plan *plan, const struct mount_plan *m);

/* Child, first: mount what comes before the first sysfs or cgroup. */
int mounts_apply(struct mounts_plan *plan, int rootfd, struct error *err);
/* Child, once it is in its network and cgroup namespaces: the rest. */
int mounts_apply_late(struct mounts_plan *plan, int rootfd, struct error *err);

/* Child: read-only at last what could not be so from the start. */
int mounts_finish(struct mounts_plan *plan, struct error *err);

/* Child: O_PATH of a path of the container, absolute and clean. What is beneath a /proc or /sys of the mounts
 * is looked for in that mount, whatever somebody who shares the root makes of its name meanwhile: masks that
 * went to another place would leave the real one open (CVE-2019-19921, CVE-2023-27561). Negative errno. */
int mounts_open(const struct mounts_plan *plan, int rootfd, const char *path);

/* The last of the mounts at exactly this target, or NULL. */
const struct mount_plan *mounts_at(const struct mounts_plan *plan, const char *target);

void mounts_describe(const struct mounts_plan *plan, struct json_out *out);

/* cgroup_mount.c: a detached mount for a mount of kind MOUNT_KIND_CGROUP: cgroup2 itself, else the
 * container's part of the host's, else an empty read-only tmpfs. Descriptor or negative errno. */
int cgroup_mount_open(const struct mount_plan *mount, const struct rootfs_context *context,
                      struct error *err);

/* mount_fallback.c: what stands in for a file system that the kernel refused with `code` (sysfs, mqueue and
 * proc whose namespaces belong to another user namespace): a detached clone of the host's with the same
 * restrictions. Descriptor; or `code` with err as it was when nothing can stand in. */
int mount_fallback_open(struct mount_plan *mount, const struct rootfs_context *context, int code,
                        struct error *err);

#endif
