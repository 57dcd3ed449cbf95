/* Content hashes for files whose identity (warm/file_identity.h) is not enough. The kernel records the time
 * of a change when a page becomes dirty. So a write through a shared mapping to a dirty page leaves no time,
 * and on some file systems no such write does. There the content itself counts, by a keyed hash. */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/siphash.h"

/* Flags to open a file for reading, which may have become a device or a pipe. */
#define CONTENT_OPEN (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

/* Write out the pages of an open file, so that every later change leaves a time. Return true if the file
 * system is known to keep its times. Return false for others (tmpfs, FUSE, NFS, 9p …), where nothing is
 * done. */
bool content_settle(int fd);

/* Return whether the file is on an overlay (overlayfs); `fd` may be one of O_PATH. */
bool content_is_overlay(int fd);

/* Hash the whole content of a regular file, or the names and types in a directory. `fd` is newly opened for
 * reading. Makes system calls only. Return 0 or negative errno. */
int content_hash(int fd, const struct siphash_key *key, struct siphash *out);

/* Read the value that a file of /proc or /sys has for this process. The value begins with a letter: a absent,
 * d directory, x it cannot be opened or read, f anything else. After "f" comes the content. After "d" come
 * the names in the directory without those of the runtime's own files, sorted, each with a newline. Return
 * the size in bytes, at most CONTENT_VALUE_MAX; the rest is cut off. */
#define CONTENT_VALUE_MAX ((size_t)16 * 1024)
ssize_t content_kernel_value(const char *path, char out[static CONTENT_VALUE_MAX]);

/* Return whether a file belongs to another mount than the directory `root`; true if that is unknown. */
bool content_is_mounted(int root, int fd);
