/* The mounts of config.json. The parent sorts and checks them, and the child carries them out. */
#pragma once

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
    MOUNT_KIND_SYMLINK, /* copy-symlink with a symbolic link as source: nothing is mounted */
    MOUNT_KIND_REMOUNT,
};

struct mount_plan {
    enum mount_kind kind;
    const char *target; /* absolute, clean, in the container */
    const char *source; /* bind: absolute on the host; symlink: its content */
    struct mount_options options;
    struct filesystem fs; /* of all kinds except bind and symlink */
    struct idmap_mount idmap;
    bool idmapped;
    bool strict_target; /* no symbolic link on the way, for /proc and /sys */
    /* A recursive bind of the host's /sys in a user namespace: make its cgroups read-only once it is
     * attached. */
    bool protect_cgroups;
    bool inherit_mode; /* tmpfs without mode=: take the mode of the directory it covers */
    /* Something is made below a read-only mount later, so mounts_finish makes it read-only. */
    bool late_readonly;
    /* The first sysfs or cgroup and all mounts after it. They show the network and the cgroup namespace,
     * which the runtime makes meanwhile. */
    bool late;
    int source_fd; /* detached clone made by mounts_prepare, with options applied; else -1 */
    int mount_fd;  /* open for mounts_finish and, of /proc and /sys, for mounts_open; else -1 */
};

struct mounts_plan {
    struct mount_plan *items;
    size_t count;
    const struct rootfs_context *context;
    const char *label_key, *label; /* SELinux context of new file systems; label NULL: none */
    /* Binds opened in the host's mount namespace would stay peers of the host's mounts. They become slaves
     * unless linux.rootfsPropagation is shared. */
    bool detach_peers;
};

/* Parent: decide the kind, source, target and options of each mount. Return 0 or a negative errno with the
 * JSON path. */
int mounts_plan(struct arena *a, const struct spec *spec, const struct rootfs_context *context,
                struct mounts_plan *out, struct error *err);

/* Return whether one of the mounts is id-mapped, and therefore opened by mounts_prepare. */
bool mounts_idmapped(const struct mounts_plan *plan);
/* Parent: open bind sources and overlays that the child cannot reach, and make the id-mapped ones. Return 0
 * or a negative errno. */
int mounts_prepare(struct mounts_plan *plan, struct error *err);
/* Close the descriptors of the plan: in the parent after the clone, in the child once no path below the
 * mounts is opened any more. */
void mounts_release(struct mounts_plan *plan);

/* Return the relation of a bind's clone to the host's peer group. The clone leaves the group, unless the
 * mount or linux.rootfsPropagation asks for a shared mount. */
enum mount_peers mounts_bind_peers(const struct mounts_plan *plan, const struct mount_plan *m);

/* Child, first: make the mounts before the first sysfs or cgroup. Return 0 or a negative errno. */
int mounts_apply(struct mounts_plan *plan, int rootfd, struct error *err);
/* Child, once it is in its network and cgroup namespaces: make the other mounts. Return 0 or a negative
 * errno. */
int mounts_apply_late(struct mounts_plan *plan, int rootfd, struct error *err);

/* Child: make the delayed mounts read-only. Return 0 or a negative errno. */
int mounts_finish(struct mounts_plan *plan, struct error *err);

/* Child: open a path of the container (absolute and clean) with O_PATH. A path below a /proc or /sys of the
 * mounts is looked up in that mount. A process that shares the root may replace the path by another file
 * meanwhile. A mask there would leave the real file uncovered (CVE-2019-19921, CVE-2023-27561). Return a
 * descriptor that the caller owns, or a negative errno. */
int mounts_open(const struct mounts_plan *plan, int rootfd, const char *path);

/* Return the last mount at exactly this target, or NULL. */
const struct mount_plan *mounts_at(const struct mounts_plan *plan, const char *target);

/* Write an array with an object for each mount. */
void mounts_describe(const struct mounts_plan *plan, struct json_out *out);

/* cgroup.c: open a detached mount for a mount of kind MOUNT_KIND_CGROUP. It is cgroup2 itself, or else the
 * container's part of the host's mount, or else an empty read-only tmpfs. Return a descriptor that the caller
 * owns, or a negative errno. */
int cgroup_mount_open(const struct mount_plan *mount, const struct rootfs_context *context,
                      struct error *err);

/* fallback.c: replace a file system that the kernel refused with `code` by a detached clone of the host's
 * with the same restrictions. This serves sysfs, mqueue and proc if their namespace belongs to another user
 * namespace. Return a descriptor that the caller owns, or `code` with `err` unchanged if there is no
 * replacement. */
int mount_fallback_open(struct mount_plan *mount, const struct rootfs_context *context, int code,
                        struct error *err);
