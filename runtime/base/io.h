/* Whole-file and whole-buffer input and output on descriptors. */
#ifndef PYSBX_BASE_IO_H
#define PYSBX_BASE_IO_H

#include <stddef.h>
#include <sys/types.h>

struct arena;

/* Read all of a file below `dirfd` (AT_FDCWD for the working directory) into the arena, NUL-terminated;
 * *size, if wanted, is its length without the NUL. Refuses more than `max` bytes with -EFBIG and anything but
 * a regular file (procfs and cgroupfs files count as regular) with -EINVAL. Negative errno on failure. */
int io_read_file_at(struct arena *a, int dirfd, const char *path, size_t max, char **data, size_t *size);
/* The same from an open descriptor (any kind: pipes, terminals), from its present offset. */
int io_read_fd(struct arena *a, int fd, size_t max, char **data, size_t *size);

/* Read a short file (a procfs or cgroupfs value) into buf, NUL-terminated, trailing newline removed.
 * Returns the length or negative errno (-EFBIG when it does not fit). */
ssize_t io_read_small_at(int dirfd, const char *path, char *buf, size_t size);

/* Write all of buf, however often it takes. 0 or negative errno. */
int io_write_full(int fd, const void *buf, size_t size);
/* Read exactly size bytes; returns size, fewer at end of file, negative errno. */
ssize_t io_read_full(int fd, void *buf, size_t size);

/* Open (O_WRONLY, not created), write text in one write(2), close: for procfs, sysfs and cgroupfs files. */
int io_write_value_at(int dirfd, const char *path, const char *text);

/* Replace `name` in dirfd by the given content: written to a temporary name beside it, then renamed. A reader
 * sees the old or the new file, never a part. Not synced: used for files on tmpfs. */
int io_replace_file_at(int dirfd, const char *name, const void *data, size_t size, mode_t mode);

/* Make a file that does not exist yet with the given content; a half-written one is removed again. */
int io_create_file_at(int dirfd, const char *name, const void *data, size_t size, mode_t mode);

/* Remove every file (not directory) in the directory. 0 or the negative errno of the first that could not be
 * removed. */
int io_remove_files(int dirfd);

#endif
