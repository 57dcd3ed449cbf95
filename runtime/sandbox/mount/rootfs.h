/* The container's root file system from plan to pivot_root(2): mounts, devices, masks. Nothing outside this
 * room needs the parts (mounts.h, devices.h, masks.h). Runtime-spec config.md "Root", "Mounts",
 * config-linux.md "Devices", "Masked Paths", "Readonly Paths", "Rootfs Mount Propagation". */
#ifndef PYSBX_SANDBOX_MOUNT_ROOTFS_H
#define PYSBX_SANDBOX_MOUNT_ROOTFS_H

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/mount/context.h"

struct arena;
struct error;
struct json_out;
struct spec;

/* Everything that will be done, decided; lives in the arena, the context's strings must live as long. */
struct rootfs_plan;

/* Parent: validate root, mounts, devices and masks and decide all that can be decided now. 0 or negative
 * errno; the text names the mount ("mounts[3] ('/data'): …"). */
int rootfs_plan(struct arena *a, const struct spec *spec, const struct rootfs_context *context,
                struct rootfs_plan **out, struct error *err);

/* Parent, before the clone: open what only the parent may reach, as detached mounts that the child inherits:
 * the root and the bind sources when the child will be in another user namespace, host device nodes then, and
 * every id-mapped bind (Linux 5.12). Does nothing when nothing of that kind is planned. */
int rootfs_prepare(struct rootfs_plan *plan, struct error *err);

/* Parent, after the clone or a failure: close what rootfs_prepare opened. May be called twice. */
void rootfs_release(struct rootfs_plan *plan);

/* Child, in its new mount namespace with the host's root still in place: set the propagation of "/", attach
 * the root, mount what comes before the first sysfs or cgroup. */
int rootfs_mount(struct rootfs_plan *plan, struct error *err);

/* Child, in its network and cgroup namespaces: mount the rest, make devices and links. */
int rootfs_mount_late(struct rootfs_plan *plan, struct error *err);

/* Directory descriptor of the container's root; valid after rootfs_mount, owned by the plan. */
int rootfs_fd(const struct rootfs_plan *plan);

/* Child, after the createContainer hooks and terminal_setup: masked and read-only paths, delayed read-only
 * mounts, read-only root. */
int rootfs_finish(struct rootfs_plan *plan, struct error *err);

/* Child: enter the root (pivot_root(2), or move and chroot with no_pivot), let go of the host's mounts, apply
 * linux.rootfsPropagation, chdir to "/". The descriptor of rootfs_fd is closed. */
int rootfs_pivot(struct rootfs_plan *plan, struct error *err);

/* Take away what rootfs_mount put into a mount namespace that the container did not have for itself: the root
 * at `path` with all that is mounted in it. `mount_namespace`: path of the namespace, NULL for the caller's.
 * What is not there any more is no error. */
int rootfs_detach(const char *path, const char *mount_namespace, struct error *err);

/* One JSON object for the `plan` command: root, mounts, devices, masked and read-only paths. */
void rootfs_describe(const struct rootfs_plan *plan, struct json_out *out);

#endif
