/* Where something is mounted: the place below the container's root, opened or made. */
#ifndef PYSBX_SANDBOX_MOUNT_TARGET_H
#define PYSBX_SANDBOX_MOUNT_TARGET_H

#include <stdbool.h>

struct error;

enum mount_target_kind {
    MOUNT_TARGET_ANY,       /* must exist */
    MOUNT_TARGET_DIRECTORY, /* made (0755) when missing */
    MOUNT_TARGET_TMPFS,     /* the same with 01777, the mode that the kernel gives to a tmpfs */
    MOUNT_TARGET_FILE,      /* an empty file (0644) is made when missing */
};

/* Open the target (O_PATH), making it and the directories above it (0755) when missing. Symbolic links are
 * followed within the root, also those that point to nothing yet (/etc/resolv.conf in many images): what they
 * name is made. -ENOENT without text for MOUNT_TARGET_ANY that is missing. */
int mount_target_open(int rootfd, const char *path, enum mount_target_kind kind, struct error *err);

/* The last component itself, also when it is a symbolic link ("dest-nofollow"). */
int mount_target_open_nofollow(int rootfd, const char *path, enum mount_target_kind kind, struct error *err);

/* A directory on whose way there is no symbolic link at all, for /proc and /sys: an image that has one there
 * wants to have procfs mounted elsewhere (CVE-2019-19921, CVE-2023-28642). */
int mount_target_open_strict(int rootfd, const char *path, struct error *err);

#endif
