/* Files of the store, one by one. All are opened beneath its directory without following links, and count
 * only if they are regular files owned by the caller. */
#include "warm/store/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/str.h"

#define NOTE_MAX ((size_t)4096)

static const char *const suffixes[STORE_FILES] = {
    [STORE_SNAPSHOT] = "",      [STORE_SUM] = ".sum",     [STORE_NEW] = ".new",
    [STORE_LOCK] = ".lock",     [STORE_USES] = ".uses",   [STORE_SEEN] = ".seen",
    [STORE_FAILED] = ".failed", [STORE_STALE] = ".stale", [STORE_FAILED_LIMITS] = ".limits",
};

const char *store_file_name(const char *key, enum store_file file, char buffer[static STORE_FILE_NAME_SIZE])
{
    snprintf(buffer, STORE_FILE_NAME_SIZE, "%s%s", key, suffixes[file]);
    return buffer;
}

bool store_file_parse(const char *name, char key[static KEY_NAME_SIZE], enum store_file *file)
{
    size_t length = strspn(name, "0123456789abcdef");
    if (length != KEY_NAME_SIZE - 1)
        return false;
    memcpy(key, name, length);
    key[length] = '\0';
    for (size_t i = 0; i < STORE_FILES; i++)
        if (str_eq(name + length, suffixes[i])) {
            *file = (enum store_file)i;
            return true;
        }
    return false;
}

bool store_file_stat(const struct store *store, const char *key, enum store_file file, struct stat *st)
{
    char name[STORE_FILE_NAME_SIZE];
    return fstatat(store->dir, store_file_name(key, file, name), st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(st->st_mode) && st->st_uid == geteuid();
}

void store_file_remove(const struct store *store, const char *key, enum store_file file)
{
    char name[STORE_FILE_NAME_SIZE];
    (void)unlinkat(store->dir, store_file_name(key, file, name), 0);
}

void store_file_note(const struct store *store, const char *key, enum store_file file, const char *text)
{
    char name[STORE_FILE_NAME_SIZE];
    store_file_remove(store, key, file);
    cleanup_fd int fd = openat(store->dir, store_file_name(key, file, name),
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        (void)io_write_full(fd, text, strlen(text));
}

const char *store_file_text(struct arena *a, const struct store *store, const char *key, enum store_file file)
{
    char name[STORE_FILE_NAME_SIZE], *text;
    struct stat st;
    if (!store_file_stat(store, key, file, &st) ||
        io_read_file_at(a, store->dir, store_file_name(key, file, name), NOTE_MAX, &text, NULL) < 0)
        return NULL;
    return text;
}

int store_file_sum(int fd, uint64_t *sum)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_size <= 0)
        return -ENODATA;
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    *sum = hash_bytes(map, (size_t)st.st_size).a;
    munmap(map, (size_t)st.st_size);
    return 0;
}

int store_lock(const struct store *store, const char *key, bool wait)
{
    char name[STORE_FILE_NAME_SIZE];
    store_file_name(key, STORE_LOCK, name);
    for (;;) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        struct stat st;
        cleanup_fd int fd = openat(store->dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
            return -errno;
        if (RETRY(fcntl(fd, wait ? F_SETLKW : F_SETLK, &lock)) < 0)
            return errno == EACCES ? -EAGAIN : -errno;
        if (fstat(fd, &st) < 0)
            return -errno;
        if (st.st_nlink > 0)
            return fd_steal(&fd);
        /* The previous holder of the lock has removed the file: the name may refer to another one. */
    }
}

void store_unlock(const struct store *store, const char *key, int *lock)
{
    if (*lock >= 0)
        store_file_remove(store, key, STORE_LOCK);
    fd_close(lock);
}
