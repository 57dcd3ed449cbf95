/* Decide whether a file is the one that a snapshot was made with. The content counts, never the path alone:
 * inode, size, change times and mode together represent it. A program cannot set the change time, and no
 * other file on the file system has the inode number. Through overlayfs both are those of the layer's file
 * (statx(2), Documentation/filesystems/overlayfs.rst), except the numbers of some directories, whose names
 * count instead (manifest/build.c). If every container has copies (storage driver vfs), nothing matches, and
 * the container starts cold. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Fixed size: it is stored unchanged. Times in nanoseconds since 1970. */
struct file_identity {
    uint64_t inode, size;
    int64_t modified, changed;
    uint32_t mode;       /* type and permissions */
    uint32_t uid, gid;   /* as the process that looked sees them; 0 for a link */
    uint32_t unnumbered; /* 1: the inode number means nothing (warm/numbering.h) */
};

/* Identify the file that `fd` refers to (O_PATH is enough). Return 0 or negative errno. */
int identity_of(int fd, struct file_identity *out);

/* The same, and store the number of the file's device. */
int identity_and_device(int fd, struct file_identity *out, dev_t *device);

/* Identify `name` in the directory `dir`; follow a link only if `follow`. A link is known by its target and
 * has no times, because engines create some anew for each container. Return 0 or negative errno. */
int identity_at(int dir, const char *name, bool follow, struct file_identity *out);

/* Compare everything but the owner, which two user namespaces show differently for one file. The inode number
 * counts unless one of them is unnumbered. */
bool identity_equal(const struct file_identity *a, const struct file_identity *b);

/* Compare owner and group. */
bool identity_same_owner(const struct file_identity *a, const struct file_identity *b);
