/* The container's root file system from plan to pivot_root(2): mounts, devices, masks. Files outside of this
 * directory do not need its parts (mounts.h, devices.h, masks.h). Runtime-spec config.md "Root", "Mounts",
 * config-linux.md "Devices", "Masked Paths", "Readonly Paths", "Rootfs Mount Propagation". */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/mount/context.h"

struct arena;
struct error;
struct json_out;
struct spec;

/* The plan of all steps. It lives in the arena, and the context's strings must live as long. */
struct rootfs_plan;

/* Parent: validate root, mounts, devices and masks, and decide everything that can be decided now. Return 0
 * or a negative errno. The text names the mount ("mounts[3] ('/data'): …"). */
int rootfs_plan(struct arena *a, const struct spec *spec, const struct rootfs_context *context,
                struct rootfs_plan **out, struct error *err);

/* Parent, before the clone: open the files that only the parent may reach, as detached mounts that the child
 * inherits. These are every id-mapped bind (Linux 5.12) and, for a child in another user namespace, the root,
 * the bind sources, overlays and host device nodes. Do nothing if the plan has none of them. Return 0 or a
 * negative errno. */
int rootfs_prepare(struct rootfs_plan *plan, struct error *err);

/* Parent, after the clone or a failure: close the descriptors of rootfs_prepare. It may be called twice. */
void rootfs_release(struct rootfs_plan *plan);

/* Child, in its new mount namespace with the host's root still in place: set the propagation of "/", attach
 * the root, and make the mounts before the first sysfs or cgroup. Return 0 or a negative errno. */
int rootfs_mount(struct rootfs_plan *plan, struct error *err);

/* Child, in its network and cgroup namespaces: make the other mounts, devices and links. Return 0 or a
 * negative errno. */
int rootfs_mount_late(struct rootfs_plan *plan, struct error *err);

/* Return the directory descriptor of the container's root. It is valid after rootfs_mount, and the plan owns
 * it. */
int rootfs_fd(const struct rootfs_plan *plan);

/* Child, after the createContainer hooks and terminal_setup: apply masked and read-only paths, delayed
 * read-only mounts, and the read-only root. Return 0 or a negative errno. */
int rootfs_finish(struct rootfs_plan *plan, struct error *err);

/* Child: enter the root (pivot_root(2), or move and chroot with no_pivot), detach the host's mounts, apply
 * linux.rootfsPropagation, and chdir to "/". The descriptor of rootfs_fd is closed. Return 0 or a negative
 * errno. */
int rootfs_pivot(struct rootfs_plan *plan, struct error *err);

/* Remove the mounts that rootfs_mount made in a mount namespace that the container shares: the root at `path`
 * with all mounts in it. mount_namespace: path of the namespace, or NULL for the caller's. A mount that is
 * already gone is no error. Return 0 or a negative errno. */
int rootfs_detach(const char *path, const char *mount_namespace, struct error *err);

/* Write one JSON object for the `plan` command: root, mounts, devices, masked and read-only paths. */
void rootfs_describe(const struct rootfs_plan *plan, struct json_out *out);
