/* Detached mounts: open them from the host, give them attributes, attach them (open_tree(2),
 * mount_setattr(2), move_mount(2); Linux 5.12). Every step goes from descriptor to descriptor. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/sys.h"
#include "sandbox/mount/options.h"

/* How a clone relates to the peer group of the mount that it is made from (mount_namespaces(7)). A clone of a
 * shared mount is a peer: a mount made on it appears on the host as well. So a clone leaves the group before
 * it is attached, unless the configuration asks for a shared mount. */
enum mount_peers {
    MOUNT_PEERS_PRIVATE, /* no mount passes in either direction: device nodes, masks, the console */
    MOUNT_PEERS_SLAVE,   /* mounts of the host propagate to the clone, but none propagate back */
    MOUNT_PEERS_KEEP,    /* the caller sets the propagation, or a shared mount is asked for */
};

/* Create a detached clone of the mount at `path` on the host, or of the open descriptor `dirfd` with path "".
 * recursive: with all mounts below it. The propagation applies to all of them. Return a descriptor (O_PATH)
 * that the caller owns, or a negative errno without text. */
int mount_clone(int dirfd, const char *path, bool recursive, bool nofollow, enum mount_peers peers);

/* Return true if a mount namespace is pinned by a mount in this one (nsfs), as snapd pins some. The kernel
 * refuses to attach a clone of such a mount in a younger namespace (ELOOP), and leaves it out of a new
 * namespace. */
bool mount_namespaces_pinned(void);

/* Call the function in a mount namespace of its own, which ends with the call. Memory and descriptors are the
 * caller's. Detached mounts that it opens remain. Return its result, or a negative errno with text. */
int mount_apart(int (*call)(void *data), void *data, struct error *err);

/* Give a mount the attributes and the propagation of the options. Bits in `later` (MOUNT_ATTR_RDONLY) are
 * left for a later call. Attributes that the host locked in a less privileged namespace stay locked. A
 * request to clear one ("rw" on a read-only host mount) is dropped as in crun, because the outcome is
 * stricter. Return 0 or a negative errno with text. */
int mount_set_options(int fd, const struct mount_options *options, uint64_t later, struct error *err);

/* Attributes of a device node that is bound: it never contains a program. */
#define MOUNT_ATTRS_DEVICE ((uint64_t)MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)

/* Set attributes by mount_setattr(2) on one mount, or on all mounts below as well (recursive). Return 0 or a
 * negative errno without text. */
int mount_set_attrs(int fd, uint64_t attrs, bool recursive);

/* Set the propagation in the same way: MS_SHARED, MS_SLAVE, MS_PRIVATE or MS_UNBINDABLE. */
int mount_set_propagation(int fd, unsigned long propagation, bool recursive);

/* Make the host's cgroups read-only in a sysfs of the host, regardless of later mounts over them
 * (CVE-2023-25809). `sys` must be attached, because the kernel does not change mounts within a detached
 * mount. It answers -EINVAL then, and also if the path is not a mount and there is nothing to protect. Return
 * 0 or a negative errno without text. */
int mount_protect_cgroups(int sys);

/* Attach the detached mount `fd` on the O_PATH descriptor `target`. Return 0 or a negative errno without
 * text. -EINVAL or -ENOTDIR: one is a directory and the other is not. */
int mount_attach(int fd, int target);
