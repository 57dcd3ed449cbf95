/* Whole-file and whole-buffer input and output on descriptors. */
#include "base/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fd.h"

static int read_file(struct arena *a, int fd, const struct stat *st, size_t max, char **data, size_t *size)
{
    /* procfs and cgroupfs report a size of 0, and pipes none: start with a page and grow. Memory that is not
     * reached costs nothing, and each step copies what is there. */
    size_t room = st->st_size > 0 && (size_t)st->st_size < max ? (size_t)st->st_size + 1 : 4096;
    cleanup_free char *buf = malloc(room + 1);
    if (buf == NULL)
        return -ENOMEM;
    size_t used = 0;
    for (;;) {
        ssize_t n = RETRY(read(fd, buf + used, room - used));
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        used += (size_t)n;
        if (used > max)
            return -EFBIG;
        if (used == room) {
            room *= 8;
            char *grown = realloc(buf, room + 1);
            if (grown == NULL)
                return -ENOMEM;
            buf = grown;
        }
    }
    *data = arena_strndup(a, buf, used);
    explicit_bzero(buf, used); /* so that only the arena has to be wiped (arena_wipe) */
    if (size != NULL)
        *size = used;
    return 0;
}

int io_read_fd(struct arena *a, int fd, size_t max, char **data, size_t *size)
{
    struct stat st;
    return fstat(fd, &st) < 0 ? -errno : read_file(a, fd, &st, max, data, size);
}

int io_read_file_at(struct arena *a, int dirfd, const char *path, size_t max, char **data, size_t *size)
{
    /* O_NONBLOCK: a FIFO in place of a file must not block the runtime. */
    cleanup_fd int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
    return read_file(a, fd, &st, max, data, size);
}

ssize_t io_read_small_at(int dirfd, const char *path, char *buf, size_t size)
{
    cleanup_fd int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    ssize_t n = io_read_full(fd, buf, size);
    if (n < 0)
        return n;
    if ((size_t)n == size)
        return -EFBIG;
    if (n > 0 && buf[n - 1] == '\n')
        n--;
    buf[n] = '\0';
    return n;
}

int io_write_full(int fd, const void *buf, size_t size)
{
    const char *p = buf;
    while (size > 0) {
        ssize_t n = RETRY(write(fd, p, size));
        if (n < 0)
            return -errno;
        p += n;
        size -= (size_t)n;
    }
    return 0;
}

ssize_t io_read_full(int fd, void *buf, size_t size)
{
    char *p = buf;
    size_t used = 0;
    while (used < size) {
        ssize_t n = RETRY(read(fd, p + used, size - used));
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        used += (size_t)n;
    }
    return (ssize_t)used;
}

int io_write_value_at(int dirfd, const char *path, const char *text)
{
    cleanup_fd int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    size_t size = strlen(text);
    ssize_t n = RETRY(write(fd, text, size));
    if (n < 0)
        return -errno;
    return (size_t)n == size ? 0 : -EIO;
}

int io_create_file_at(int dirfd, const char *name, const void *data, size_t size, mode_t mode)
{
    cleanup_fd int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0)
        return -errno;
    int ret = io_write_full(fd, data, size);
    if (ret < 0)
        unlinkat(dirfd, name, 0);
    return ret;
}

int io_replace_file_at(int dirfd, const char *name, const void *data, size_t size, mode_t mode)
{
    char temporary[64 + 256];
    int len = snprintf(temporary, sizeof(temporary), ".%s.%d", name, (int)getpid());
    if (len < 0 || (size_t)len >= sizeof(temporary))
        return -ENAMETOOLONG;
    cleanup_fd int fd = openat(dirfd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0 && errno == EEXIST) {
        /* A killed process with the same pid left it behind. */
        unlinkat(dirfd, temporary, 0);
        fd = openat(dirfd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    }
    if (fd < 0)
        return -errno;
    int ret = io_write_full(fd, data, size);
    if (ret == 0 && renameat(dirfd, temporary, dirfd, name) < 0)
        ret = -errno;
    if (ret < 0)
        unlinkat(dirfd, temporary, 0);
    return ret;
}

int io_remove_files(int dirfd)
{
    int copy = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (dir == NULL) {
        int saved = errno;
        if (copy >= 0)
            close(copy);
        return -saved;
    }
    int ret = 0;
    rewinddir(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd, entry->d_name, 0) < 0 && errno != ENOENT && ret == 0)
            ret = -errno;
    }
    closedir(dir);
    return ret;
}
