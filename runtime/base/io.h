/* Whole-file and whole-buffer input and output on descriptors. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct arena;

/* Read a whole file below `dirfd` (AT_FDCWD for the working directory) into the arena, NUL-terminated. *size
 * is its length without the NUL; `size` may be NULL. Negative errno on failure: -EFBIG for more than `max`
 * bytes, -EISDIR for a directory, -EINVAL for any other file that is not regular. Files in procfs and
 * cgroupfs count as regular. */
int io_read_file_at(struct arena *a, int dirfd, const char *path, size_t max, char **data, size_t *size);
/* The same for an open descriptor of any kind (pipe, terminal), from its current offset. */
int io_read_fd(struct arena *a, int fd, size_t max, char **data, size_t *size);

/* Read a short file (a procfs or cgroupfs value) into buf, NUL-terminated, without the trailing newline.
 * Return the length or negative errno, -EFBIG if it does not fit. */
ssize_t io_read_small_at(int dirfd, const char *path, char *buf, size_t size);

/* Write all of buf, with as many calls of write(2) as it takes. 0 or negative errno. */
int io_write_full(int fd, const void *buf, size_t size);
/* Read `size` bytes. Return `size`, fewer at the end of the file, or negative errno. */
ssize_t io_read_full(int fd, void *buf, size_t size);

/* Open an existing file, write the text with one write(2), and close it. For files of procfs, sysfs and
 * cgroupfs. 0 or negative errno, -EIO if the kernel took only a part. */
int io_write_value_at(int dirfd, const char *path, const char *text);

/* Replace the content of `name` in dirfd: write a temporary file next to it and rename it. A reader sees the
 * old or the new file, never a part. Nothing is synced, because the files are on a tmpfs. 0 or negative
 * errno. */
int io_replace_file_at(int dirfd, const char *name, const void *data, size_t size, mode_t mode);

/* Create a file that does not exist yet, with this content. A half-written one is removed again. 0 or
 * negative errno. */
int io_create_file_at(int dirfd, const char *name, const void *data, size_t size, mode_t mode);

/* Remove every file, but no directory, from the directory. 0, or the negative errno of the first one that
 * could not be removed. */
int io_remove_files(int dirfd);
