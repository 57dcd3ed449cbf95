/* The target of a mount: a place below the container's root, opened or made. */
#pragma once

#include <stdbool.h>

struct error;

enum mount_target_kind {
    MOUNT_TARGET_ANY,       /* it must exist */
    MOUNT_TARGET_DIRECTORY, /* made (0755) if missing */
    MOUNT_TARGET_FILE,      /* made as an empty file (0644) if missing */
};

/* Open the target (O_PATH). If it is missing, make it and the directories above it (0755). Symbolic links are
 * followed within the root. If a link points to a missing file (/etc/resolv.conf in many images), that file
 * is made. Return a descriptor that the caller owns, or a negative errno: -ENOENT without text for
 * MOUNT_TARGET_ANY that is missing. */
int mount_target_open(int rootfd, const char *path, enum mount_target_kind kind, struct error *err);

/* Do the same, but open the last component itself, even if it is a symbolic link ("dest-nofollow"). */
int mount_target_open_nofollow(int rootfd, const char *path, enum mount_target_kind kind, struct error *err);

/* Open a directory for /proc or /sys, make it if it is missing, and refuse any symbolic link on the way. An
 * image that has one there wants to have procfs mounted elsewhere (CVE-2019-19921, CVE-2023-28642). */
int mount_target_open_strict(int rootfd, const char *path, struct error *err);
