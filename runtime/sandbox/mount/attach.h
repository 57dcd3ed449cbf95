/* Detached mounts: opening them from the host, giving them attributes, attaching them (open_tree(2),
 * mount_setattr(2), move_mount(2); Linux 5.12). Every step is from descriptor to descriptor. */
#ifndef PYSBX_SANDBOX_MOUNT_ATTACH_H
#define PYSBX_SANDBOX_MOUNT_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sys.h"
#include "sandbox/mount/options.h"

/* How a clone relates to the peer group of the mount that it is made from (mount_namespaces(7)). A clone of a
 * shared mount is a peer: a mount made on it appears on the host as well. So a clone leaves the group before
 * it is attached, unless the configuration asks for a shared mount. */
enum mount_peers {
    MOUNT_PEERS_PRIVATE, /* no mount passes in either direction: device nodes, masks, the console */
    MOUNT_PEERS_SLAVE,   /* mounts of the host pass to the clone, none pass back */
    MOUNT_PEERS_KEEP,    /* the caller sets the propagation, or a shared mount is asked for */
};

/* Create a detached clone of what is at `path` on the host (or of the open descriptor `dirfd` with path "");
 * with all mounts below it if `recursive`. The propagation applies to all of them. Return a descriptor
 * (O_PATH) or negative errno, no text. */
int mount_clone(int dirfd, const char *path, bool recursive, bool nofollow, enum mount_peers peers);

/* Give a mount the attributes and the propagation asked for. Bits in `later` (MOUNT_ATTR_RDONLY) are left for
 * a later call. What the host locked in a less privileged namespace stays locked: a wish to clear it ("rw" on
 * a read-only host mount) is dropped as crun does, for the outcome is stricter, never laxer. 0 or negative
 * errno with text. */
int mount_set_options(int fd, const struct mount_options *options, uint64_t later, struct error *err);

/* Attributes of a device node that is bound: nothing on it is a program. */
#define MOUNT_ATTRS_DEVICE ((uint64_t)MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)

/* mount_setattr(2) of attributes to set, on one mount or all below as well. 0 or negative errno, no text. */
int mount_set_attrs(int fd, uint64_t attrs, bool recursive);

/* The same for propagation: MS_SHARED, MS_SLAVE, MS_PRIVATE or MS_UNBINDABLE. */
int mount_set_propagation(int fd, unsigned long propagation, bool recursive);

/* Make the host's cgroups read-only in a sysfs of the host, whatever is mounted over them later
 * (CVE-2023-25809). `sys` is attached: what lies in a detached mount cannot be changed (-EINVAL, as for what
 * is no mount, which is nothing to protect). 0 or negative errno, no text. */
int mount_protect_cgroups(int sys);

/* Attach the detached mount `fd` on the O_PATH descriptor `target`. 0 or negative errno, no text (-EINVAL or
 * -ENOTDIR: one is a directory and the other is not). */
int mount_attach(int fd, int target);

#endif
