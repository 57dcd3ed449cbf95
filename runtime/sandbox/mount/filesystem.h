/* New file systems through the mount API of Linux 5.2 (fsopen, fsconfig, fsmount), with mount(2) for what
 * that cannot say. */
#ifndef PYSBX_SANDBOX_MOUNT_FILESYSTEM_H
#define PYSBX_SANDBOX_MOUNT_FILESYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/mount/options.h"

struct arena;

struct filesystem {
    const char *type;   /* "tmpfs", "overlay", … */
    const char *source; /* what mountinfo shows, or the block device; NULL: none */
    uint64_t attrs;     /* MOUNT_ATTR_* of the mount */
    unsigned long super;
    const struct mount_data *data;
    size_t data_count;
    /* SELinux context of everything in it ("context", "rootcontext", …) or NULL. */
    const char *label_key, *label;
    /* The whole of the above as mount(2) wants its data, when only that call can carry it (see
     * filesystem_plan); else NULL. */
    const char *legacy_data;
};

/* Parent: fill legacy_data when the new interface cannot express the file system: a value over 255 bytes
 * (fsconfig's limit; overlay's lowerdir), a subtype ("fuse.x"), iversion. */
void filesystem_plan(struct arena *a, struct filesystem *fs);

/* Make the file system and a detached mount of it. `mode`, unless negative, is the mode of its root
 * directory. Returns the mount's descriptor (O_PATH) or negative errno; the text holds the kernel's own
 * message when it left one. devpts: a gid that the user namespace does not map is left out. Not for file
 * systems with legacy_data. */
int filesystem_create(const struct filesystem *fs, int mode, struct error *err);

/* Mount one with legacy_data on the O_PATH descriptor `target` by mount(2); `remount` changes what is mounted
 * there instead. 0 or negative errno. */
int filesystem_mount_legacy(const struct filesystem *fs, int target, bool remount, struct error *err);

#endif
