/* Compiled programs on disk. An entry contains its whole key, the identity of libseccomp, and the program.
 * The name is only a hash: a collision costs a compilation, and never selects another profile's program. */
#include "sandbox/seccomp/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "sandbox/seccomp/plan.h"

#define PARENT      ".cache"
#define DIRECTORY   ".cache/seccomp"
#define ENTRIES_MAX 64
/* Raise it if the layout changes, or if a profile compiles to another program. */
#define MAGIC UINT64_C(0x3150434553585953)

/* The libseccomp that compiled the program. A newer one may know more system calls. */
struct identity {
    uint64_t device, inode, size, seconds, nanoseconds;
};

/* The file: header, program, key, then the three strings with their NULs. */
struct header {
    uint64_t magic, checksum; /* the checksum covers everything after the header */
    struct identity library;
    uint32_t count, flags, notify;
    uint32_t key_size, library_size, path_size, metadata_size; /* sizes of strings with their NUL; 0: none */
    uint32_t reserved;
};

struct bytes {
    const char *data;
    size_t size;
};

/* Put the length before every field, so that no two different keys have the same bytes. */
static struct bytes make_key(struct arena *a, const struct seccomp_cache_key *key)
{
    struct utsname system;
    if (uname(&system) < 0)
        return (struct bytes){0};
    const struct bytes fields[] = {
        {key->version, strlen(key->version)},     {system.machine, strlen(system.machine)},
        {system.release, strlen(system.release)}, {key->fail_unknown ? "1" : "0", 1},
        {key->profile.data, key->profile.size},
    };
    const size_t count = sizeof(fields) / sizeof(fields[0]);
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += sizeof(uint32_t) + fields[i].size;
    char *data = arena_alloc(a, size), *p = data;
    for (size_t i = 0; i < count; i++) {
        uint32_t length = (uint32_t)fields[i].size;
        memcpy(p, &length, sizeof(length));
        p += sizeof(length);
        memcpy(p, fields[i].data, length);
        p += length;
    }
    return (struct bytes){data, size};
}

static bool is_ours(int fd, mode_t type, struct stat *st)
{
    return fstat(fd, st) == 0 && (st->st_mode & S_IFMT) == type && st->st_uid == geteuid() &&
           (st->st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

static int seccomp_cache_open_directory(int state_dir)
{
    struct stat st;
    cleanup_fd int fd = path_open_in_root_nosymlink(state_dir, DIRECTORY, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fd;
    if (!is_ours(fd, S_IFDIR, &st))
        return -EPERM;
    return fd_steal(&fd);
}

static bool identify(const char *path, struct identity *out)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return false;
    *out = (struct identity){st.st_dev, st.st_ino, (uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec,
                             (uint64_t)st.st_mtim.tv_nsec};
    return true;
}

/* Take the string of this size at *p, or NULL for size 0. Return false if it does not end with its NUL. */
static bool take_string(const char **p, uint32_t size, const char **out)
{
    *out = size > 0 ? *p : NULL;
    *p += size;
    return size == 0 || (*p)[-1] == '\0';
}

/* Read the whole file into the arena, or return NULL if it is not a cache file of this user. */
static const char *read_entry(struct arena *a, int dirfd, const char *name, size_t *size)
{
    struct stat st;
    const size_t largest = sizeof(struct header) + BPF_MAXINSNS * sizeof(struct sock_filter) + (1U << 24);
    cleanup_fd int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || !is_ours(fd, S_IFREG, &st))
        return NULL;
    if ((size_t)st.st_size < sizeof(struct header) || (size_t)st.st_size > largest)
        return NULL;
    *size = (size_t)st.st_size;
    char *data = arena_alloc(a, *size);
    return io_read_full(fd, data, *size) == st.st_size ? data : NULL;
}

static bool decode_entry(const char *data, size_t size, struct bytes key, struct seccomp_plan *out)
{
    const struct header *header = (const struct header *)(const void *)data;
    if (header->magic != MAGIC || header->count == 0 || header->count > BPF_MAXINSNS ||
        header->key_size != key.size)
        return false;
    const char *program = data + sizeof(*header);
    const char *stored = program + header->count * sizeof(struct sock_filter);
    uint64_t expected = sizeof(*header) + header->count * sizeof(struct sock_filter);
    expected += (uint64_t)header->key_size + header->library_size + header->path_size + header->metadata_size;
    if (expected != size || memcmp(stored, key.data, key.size) != 0)
        return false;
    if (hash_bytes(program, size - sizeof(*header)).a != header->checksum)
        return false;
    struct identity library;
    const char *library_path, *p = stored + key.size;
    if (!take_string(&p, header->library_size, &library_path) ||
        !take_string(&p, header->path_size, &out->listener_path) ||
        !take_string(&p, header->metadata_size, &out->listener_metadata) || library_path == NULL ||
        !identify(library_path, &library) || memcmp(&library, &header->library, sizeof(library)) != 0)
        return false;
    out->filter = (const struct sock_filter *)(const void *)program;
    out->count = header->count;
    out->flags = header->flags;
    out->notify = header->notify != 0;
    return true;
}

bool seccomp_cache_lookup(struct arena *a, int state_dir, const struct seccomp_cache_key *key,
                          struct seccomp_plan *out)
{
    cleanup_fd int dirfd = seccomp_cache_open_directory(state_dir);
    if (dirfd < 0)
        return false;
    struct bytes wanted = make_key(a, key);
    if (wanted.data == NULL)
        return false;
    char name[HASH_NAME_SIZE];
    size_t size;
    hash_name(hash_bytes(wanted.data, wanted.size), name);
    const char *data = read_entry(a, dirfd, name, &size);
    struct seccomp_plan found = {0};
    if (data == NULL || !decode_entry(data, size, wanted, &found))
        return false;
    *out = found;
    return true;
}

static char *seccomp_cache_put(char *p, const void *data, size_t size)
{
    if (size > 0)
        memcpy(p, data, size);
    return p + size;
}

static uint32_t string_size(const char *s)
{
    return s != NULL ? (uint32_t)strlen(s) + 1 : 0;
}

static const void *encode_entry(struct arena *a, struct bytes key, const struct seccomp_plan *plan,
                                const char *library, size_t *size)
{
    struct header header = {
        .magic = MAGIC,
        .count = (uint32_t)plan->count,
        .flags = plan->flags,
        .notify = plan->notify,
        .key_size = (uint32_t)key.size,
        .library_size = string_size(library),
        .path_size = string_size(plan->listener_path),
        .metadata_size = string_size(plan->listener_metadata),
    };
    if (!identify(library, &header.library))
        return NULL;
    size_t program_size = plan->count * sizeof(struct sock_filter);
    *size = sizeof(header) + program_size + key.size + header.library_size + header.path_size +
            header.metadata_size;
    char *data = arena_alloc(a, *size), *p = data + sizeof(header);
    p = seccomp_cache_put(p, plan->filter, program_size);
    p = seccomp_cache_put(p, key.data, key.size);
    p = seccomp_cache_put(p, library, header.library_size);
    p = seccomp_cache_put(p, plan->listener_path, header.path_size);
    seccomp_cache_put(p, plan->listener_metadata, header.metadata_size);
    header.checksum = hash_bytes(data + sizeof(header), *size - sizeof(header)).a;
    memcpy(data, &header, sizeof(header));
    return data;
}

/* Remove the oldest entry: by last use if the file system keeps access times, else by last write. Return
 * false if there are no more entries than allowed. Left-over temporary files count as entries. */
static bool drop_oldest(int dirfd)
{
    int copy = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0)
        return false;
    DIR *dir = fdopendir(copy);
    if (dir == NULL) {
        close(copy);
        return false;
    }
    char oldest[NAME_MAX + 1] = "";
    time_t when = 0;
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        struct stat st;
        if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, "..") ||
            fstatat(dirfd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        time_t used = st.st_atim.tv_sec > st.st_mtim.tv_sec ? st.st_atim.tv_sec : st.st_mtim.tv_sec;
        if (count++ == 0 || used < when) {
            when = used;
            snprintf(oldest, sizeof(oldest), "%s", entry->d_name);
        }
    }
    closedir(dir);
    return count > ENTRIES_MAX && unlinkat(dirfd, oldest, 0) == 0;
}

void seccomp_cache_store(struct arena *a, int state_dir, const struct seccomp_cache_key *key,
                         const struct seccomp_plan *plan, const char *library)
{
    size_t size;
    char name[HASH_NAME_SIZE];
    struct bytes wanted = make_key(a, key);
    const void *data = wanted.data != NULL ? encode_entry(a, wanted, plan, library, &size) : NULL;
    if (data == NULL)
        return;
    (void)mkdirat(state_dir, PARENT, 0700);
    (void)mkdirat(state_dir, DIRECTORY, 0700);
    cleanup_fd int dirfd = seccomp_cache_open_directory(state_dir);
    if (dirfd < 0) {
        log_debug("seccomp cache '%s' is not used: it is not a private directory of this user", DIRECTORY);
        return;
    }
    hash_name(hash_bytes(wanted.data, wanted.size), name);
    int ret = io_replace_file_at(dirfd, name, data, size, 0600);
    if (ret < 0)
        log_debug("seccomp cache: cannot write '%s': %d", name, ret);
    while (drop_oldest(dirfd))
        ;
}
