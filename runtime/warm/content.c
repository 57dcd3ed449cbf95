/* Decide where times can be trusted, and read the content where they cannot: mmap(2), sync_file_range(2),
 * statfs(2), and Documentation/filesystems/locking.rst, page_mkwrite. */
#include "warm/content.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif
#ifndef EROFS_SUPER_MAGIC_V1
#define EROFS_SUPER_MAGIC_V1 0xe0f5e1e2
#endif
#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x1000U
#endif

/* The offset of stx_mnt_id, which struct statx of older C libraries lacks. */
#define MNT_ID_OFFSET 0x90

/* The prefix of files that the runtime itself has put into /dev of a probe: warm/params.h. */
#define CONTENT_OWN_FILES ".pysbx"

/* The way to write out the pages of a file. On a read-only file system there are no dirty pages. */
enum settling { SETTLE_PAGES, SETTLE_FILE, SETTLE_NOTHING };

static const struct {
    uint32_t magic;
    enum settling settling;
} known[] = {
    {EXT4_SUPER_MAGIC, SETTLE_PAGES},
    {XFS_SUPER_MAGIC, SETTLE_PAGES},
    {BTRFS_SUPER_MAGIC, SETTLE_PAGES},
    {F2FS_SUPER_MAGIC, SETTLE_PAGES},
    /* The pages are those of the file beneath, and only fsync(2) passes the request on to it. Only the engine
     * writes to it there: a container has an upper layer of its own. */
    {OVERLAYFS_SUPER_MAGIC, SETTLE_FILE},
    {SQUASHFS_MAGIC, SETTLE_NOTHING},
    {EROFS_SUPER_MAGIC_V1, SETTLE_NOTHING},
    {ISOFS_SUPER_MAGIC, SETTLE_NOTHING},
};

bool content_settle(int fd)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return false;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i].magic != (uint32_t)fs.f_type)
            continue;
        const unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
        if (known[i].settling == SETTLE_PAGES)
            return sync_file_range(fd, 0, 0, all) == 0;
        return known[i].settling == SETTLE_NOTHING || fsync(fd) == 0 || errno == EROFS;
    }
    return false;
}

bool content_is_overlay(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && (uint32_t)fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

static union {
    unsigned char bytes[64 * 1024];
    uint64_t align;
} buffer;

/* A file system may list the same names in another order. So the hash is the sum of the names' hashes, each
 * of which has a key (manifest/check.c asserts the layout of struct dirent). */
static int hash_names(int fd, const struct siphash_key *key, struct siphash *out)
{
    long n;
    *out = (struct siphash){0};
    while ((n = syscall(SYS_getdents64, fd, buffer.bytes, sizeof(buffer.bytes))) > 0)
        for (long at = 0; at < n;) {
            const struct dirent *entry = (const struct dirent *)(const void *)(buffer.bytes + at);
            struct siphash_state state;
            siphash_begin(&state, key);
            siphash_add(&state, &entry->d_type, sizeof(entry->d_type));
            siphash_add(&state, entry->d_name, strlen(entry->d_name));
            struct siphash name = siphash_end(&state);
            out->words[0] += name.words[0];
            out->words[1] += name.words[1];
            at += entry->d_reclen;
        }
    return n < 0 ? -errno : 0;
}

int content_hash(int fd, const struct siphash_key *key, struct siphash *out)
{
    struct siphash_state state;
    siphash_begin(&state, key);
    for (off_t at = 0;;) {
        ssize_t n = RETRY(pread(fd, buffer.bytes, sizeof(buffer.bytes), at));
        if (n < 0)
            return errno == EISDIR ? hash_names(fd, key, out) : -errno;
        if (n == 0)
            break;
        siphash_add(&state, buffer.bytes, (size_t)n);
        at += n;
    }
    *out = siphash_end(&state);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Write the names after the letter; return the total size. */
static ssize_t list_names(const char *path, char out[static CONTENT_VALUE_MAX])
{
    static char text[CONTENT_VALUE_MAX];
    static const char *names[CONTENT_VALUE_MAX / 2];
    size_t count = 0, used = 0, size = 1;
    int fd = open(path, CONTENT_OPEN | O_DIRECTORY);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        fd_close(&fd);
        out[0] = 'x';
        return 1;
    }
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        size_t length = strlen(entry->d_name) + 1;
        if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, "..") ||
            str_after(entry->d_name, CONTENT_OWN_FILES) != NULL || used + length > sizeof(text))
            continue;
        names[count++] = memcpy(text + used, entry->d_name, length);
        used += length;
    }
    closedir(dir);
    qsort(names, count, sizeof(names[0]), by_name);
    for (size_t i = 0; i < count; i++)
        for (const char *p = names[i]; size < CONTENT_VALUE_MAX; p++) {
            out[size++] = *p != '\0' ? *p : '\n';
            if (*p == '\0')
                break;
        }
    return (ssize_t)size;
}

ssize_t content_kernel_value(const char *path, char out[static CONTENT_VALUE_MAX])
{
    struct stat st;
    if (stat(path, &st) < 0) {
        out[0] = errno == ENOENT || errno == ENOTDIR ? 'a' : 'x';
        return 1;
    }
    out[0] = S_ISDIR(st.st_mode) ? 'd' : 'f';
    if (out[0] == 'd')
        return list_names(path, out);
    size_t size = 1;
    cleanup_fd int fd = open(path, CONTENT_OPEN);
    ssize_t n = fd < 0 ? -1 : 1;
    while (n > 0 && size < CONTENT_VALUE_MAX) {
        n = RETRY(read(fd, out + size, CONTENT_VALUE_MAX - size));
        size += n > 0 ? (size_t)n : 0;
    }
    if (n < 0) {
        out[0] = 'x';
        return 1;
    }
    return (ssize_t)size;
}

bool content_is_mounted(int root, int fd)
{
    struct statx of_root, of_file;
    const int flags = AT_EMPTY_PATH | AT_NO_AUTOMOUNT;
    if (statx(root, "", flags, STATX_MNT_ID, &of_root) < 0 ||
        statx(fd, "", flags, STATX_MNT_ID, &of_file) < 0)
        return true;
    /* Before Linux 5.8 the kernel reports no mount ID. */
    if ((of_root.stx_mask & of_file.stx_mask & STATX_MNT_ID) == 0)
        return true;
    uint64_t numbers[2];
    memcpy(&numbers[0], (const char *)&of_root + MNT_ID_OFFSET, sizeof(numbers[0]));
    memcpy(&numbers[1], (const char *)&of_file + MNT_ID_OFFSET, sizeof(numbers[1]));
    return numbers[0] != numbers[1];
}
