/* Whether a file is the one that a snapshot was made with. The content counts, never the path alone: inode,
 * size, times of change and mode together stand for it. The change time cannot be set by a program, and on
 * one file system no other file has the number; through overlayfs both are those of the layer's file
 * (statx(2), Documentation/filesystems/overlayfs.rst). Where every container has copies (storage driver vfs)
 * nothing matches, and the container starts cold. */
#ifndef PYSBX_WARM_FILE_IDENTITY_H
#define PYSBX_WARM_FILE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

/* Fixed size: it is stored as it is. Times in nanoseconds since 1970. */
struct file_identity {
    uint64_t inode, size;
    int64_t modified, changed;
    uint32_t mode; /* type and permissions */
    uint32_t reserved;
};

/* The identity of what `fd` names (O_PATH is enough). 0 or negative errno. */
int identity_of(int fd, struct file_identity *out);

/* The identity of `name` in the directory `dir`, a link followed only if `follow`; it is known by its target,
 * and has no times, for engines make some anew for each container. 0 or negative errno. */
int identity_at(int dir, const char *name, bool follow, struct file_identity *out);

bool identity_equal(const struct file_identity *a, const struct file_identity *b);

#endif
