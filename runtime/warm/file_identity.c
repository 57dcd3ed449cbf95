/* Identify files by fstatat(2), which also works for O_PATH descriptors. The device is left out, because it
 * differs between containers for the same file (overlayfs). */
#include "warm/file_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

static int64_t nanoseconds(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int identity_by(int dir, const char *name, int flags, struct file_identity *out, dev_t *device)
{
    struct stat st;
    if (fstatat(dir, name, &st, flags) < 0)
        return -errno;
    *out = (struct file_identity){
        .inode = st.st_ino,
        .size = (uint64_t)st.st_size,
        .modified = nanoseconds(st.st_mtim),
        .changed = nanoseconds(st.st_ctim),
        .mode = st.st_mode,
        .uid = st.st_uid,
        .gid = st.st_gid,
    };
    if (device != NULL)
        *device = st.st_dev;
    return 0;
}

/* A link is identified by its target: engines create some links anew for each container. */
static int identity_of_link(int dir, const char *name, struct file_identity *out)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dir, name, target, sizeof(target));
    if (n < 0)
        return -errno;
    *out = (struct file_identity){
        .inode = hash_bytes(target, (size_t)n).a, .size = (uint64_t)n, .mode = out->mode};
    return 0;
}

int identity_of(int fd, struct file_identity *out)
{
    return identity_by(fd, "", AT_EMPTY_PATH, out, NULL);
}

int identity_and_device(int fd, struct file_identity *out, dev_t *device)
{
    return identity_by(fd, "", AT_EMPTY_PATH, out, device);
}

int identity_at(int dir, const char *name, bool follow, struct file_identity *out)
{
    int ret = identity_by(dir, name, follow ? 0 : AT_SYMLINK_NOFOLLOW, out, NULL);
    return ret == 0 && S_ISLNK(out->mode) ? identity_of_link(dir, name, out) : ret;
}

bool identity_equal(const struct file_identity *a, const struct file_identity *b)
{
    bool numbered = a->unnumbered == 0 && b->unnumbered == 0;
    return (!numbered || a->inode == b->inode) && a->size == b->size && a->modified == b->modified &&
           a->changed == b->changed && a->mode == b->mode;
}

bool identity_same_owner(const struct file_identity *a, const struct file_identity *b)
{
    return a->uid == b->uid && a->gid == b->gid;
}
