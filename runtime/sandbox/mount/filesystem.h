/* New file systems by the mount API of Linux 5.2 (fsopen, fsconfig, fsmount). mount(2) does what that API
 * cannot express. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/mount/options.h"

struct arena;

struct filesystem {
    const char *type;   /* "tmpfs", "overlay", … */
    const char *source; /* shown in mountinfo, or the block device; NULL: none */
    uint64_t attrs;     /* MOUNT_ATTR_* of the mount */
    unsigned long super;
    const struct mount_data *data;
    size_t data_count;
    /* SELinux context of all files in it ("context", "rootcontext", …), or NULL. */
    const char *label_key, *label;
    /* All of the above as data for mount(2), if only that call can express it (see filesystem_plan); else
     * NULL. */
    const char *legacy_data;
};

/* Join the data and the label with commas, as mount(2) wants them. The string is in the arena. */
const char *filesystem_join_data(struct arena *a, const struct filesystem *fs);

/* Parent: fill legacy_data if the new API cannot express the file system. That is a value over 255 bytes
 * (fsconfig's limit; overlay's lowerdir), a subtype ("fuse.x"), or iversion. */
void filesystem_plan(struct arena *a, struct filesystem *fs);

/* Create the file system and a detached mount of it. mode: the mode of its root directory, or -1 for the
 * default. devpts: a gid that the user namespace does not map is left out. Do not call it for file systems
 * with legacy_data. Return the mount's descriptor (O_PATH), which the caller owns, or a negative errno. The
 * text holds the kernel's own message if there is one. */
int filesystem_create(const struct filesystem *fs, int mode, struct error *err);

/* Mount a file system with legacy_data on the O_PATH descriptor `target` by mount(2). remount: change the
 * file system that is mounted there instead. Return 0 or a negative errno. */
int filesystem_mount_legacy(const struct filesystem *fs, int target, bool remount, struct error *err);
