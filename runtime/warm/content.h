/* When a file's identity (warm/file_identity.h) is not enough. The kernel notes the time of a change when a
 * page becomes dirty: a write through a shared mapping to a page that is dirty already, and on some file
 * systems any such write, leaves no time. There the content itself counts, by a keyed hash. */
#ifndef PYSBX_WARM_CONTENT_H
#define PYSBX_WARM_CONTENT_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/siphash.h"

/* How a file is opened to be read: it may have become a device or a pipe. */
#define CONTENT_OPEN (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

/* Have the pages of an open file written, so that every later change leaves a time. True when that holds: a
 * file system is known to keep its times. False for others (tmpfs, FUSE, NFS, 9p …), where nothing is done.
 */
bool content_settle(int fd);

/* The hash of all that is in a regular file, from its beginning. System calls only. 0 or negative errno. */
int content_hash(int fd, const struct siphash_key *key, struct siphash *out);

/* What a file of /proc or /sys says to this process: a letter (a absent, d directory, x it cannot be opened
 * or read, f anything else). Behind "f" follows what can be read of it, behind "d" the names in it, without
 * those of the runtime's own files, sorted, each with a newline. Its size in bytes, at most
 * CONTENT_VALUE_MAX; more is cut off. */
#define CONTENT_VALUE_MAX ((size_t)16 * 1024)
ssize_t content_kernel_value(const char *path, char out[static CONTENT_VALUE_MAX]);

/* Is a file part of another mount than the directory `root`? True when that cannot be found out. */
bool content_is_mounted(int root, int fd);

#endif
