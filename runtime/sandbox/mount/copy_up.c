/* Copy a directory into a new tmpfs, from descriptor to descriptor. */
#include "sandbox/mount/copy_up.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"

/* Each level holds three descriptors open. */
#define DEPTH_MAX 128
/* The kernel's limits for a list of names and for a value: XATTR_LIST_MAX, XATTR_SIZE_MAX. */
#define ATTRIBUTE_MAX (64 * 1024)

static int copy_directory(int from, int to, unsigned depth, struct error *err);

/* Copy extended attributes. A tmpfs supports user, trusted, security and ACL attributes, but not on every
 * kernel and not for every user. Attributes that it refuses are left out. */
static int copy_attributes(int from, int to)
{
    char names[ATTRIBUTE_MAX], value[ATTRIBUTE_MAX];
    ssize_t size = flistxattr(from, names, sizeof(names));
    for (char *name = names; size > 0 && name < names + size; name += strlen(name) + 1) {
        ssize_t n = fgetxattr(from, name, value, sizeof(value));
        if (n >= 0 && fsetxattr(to, name, value, (size_t)n, 0) < 0 && errno == ENOSPC)
            return -ENOSPC;
    }
    return 0;
}

/* EINVAL: the user namespace does not map the owner. The copy then belongs to the container's root. */
static int copy_owner(int dir, const char *name, const struct stat *st)
{
    int flags = AT_SYMLINK_NOFOLLOW | (name[0] == '\0' ? AT_EMPTY_PATH : 0);
    return fchownat(dir, name, st->st_uid, st->st_gid, flags) < 0 && errno != EINVAL ? -errno : 0;
}

/* Set the owner first, because that clears set-id bits and capabilities. */
static int copy_metadata(int from, int to, const struct stat *st, bool mode)
{
    int ret = copy_owner(to, "", st);
    if (ret < 0)
        return ret;
    if (mode && fchmod(to, st->st_mode & 07777) < 0)
        return -errno;
    ret = copy_attributes(from, to);
    if (ret < 0)
        return ret;
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    return futimens(to, times) < 0 ? -errno : 0;
}

static int copy_file(int from_dir, int to_dir, const char *name)
{
    struct stat st;
    /* O_NONBLOCK: a FIFO may have replaced the file since the runtime examined it. */
    cleanup_fd int from = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (from < 0 || fstat(from, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EAGAIN;
    cleanup_fd int to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        return -errno;
    for (;;) {
        ssize_t n = RETRY(sendfile(to, from, NULL, (size_t)1 << 30));
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
    }
    return copy_metadata(from, to, &st, true);
}

static int copy_link(int from_dir, int to_dir, const char *name)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from_dir, name, target, sizeof(target) - 1);
    if (n < 0)
        return -errno;
    target[n] = '\0';
    return symlinkat(target, to_dir, name) < 0 ? -errno : 0;
}

/* Copy a node. *made: the node exists, so that it can get an owner and times. */
static int copy_node(int to_dir, const char *name, const struct stat *st, bool *made)
{
    *made = mknodat(to_dir, name, st->st_mode, st->st_rdev) == 0;
    if (*made)
        return fchmodat(to_dir, name, st->st_mode & 07777, 0) < 0 ? -errno : 0;
    return errno == EPERM && (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode)) ? 0 : -errno;
}

static int copy_subdirectory(int from_dir, int to_dir, const char *name, unsigned depth, struct error *err)
{
    cleanup_fd int from = openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0)
        return -errno;
    struct stat st;
    if (fstat(from, &st) < 0 || mkdirat(to_dir, name, 0700) < 0)
        return -errno;
    cleanup_fd int to = openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0)
        return -errno;
    int ret = copy_directory(from, to, depth + 1, err);
    /* Set these after the content, because making that changes the directory's times. */
    return ret < 0 ? ret : copy_metadata(from, to, &st, true);
}

static int copy_entry(int from, int to, const char *name, unsigned depth, struct error *err)
{
    struct stat st;
    bool made = true;
    int ret;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (S_ISDIR(st.st_mode))
        return copy_subdirectory(from, to, name, depth, err);
    if (S_ISREG(st.st_mode))
        return copy_file(from, to, name);
    ret = S_ISLNK(st.st_mode) ? copy_link(from, to, name) : copy_node(to, name, &st, &made);
    if (ret < 0 || !made)
        return ret;
    const struct timespec times[2] = {st.st_atim, st.st_mtim};
    ret = copy_owner(to, name, &st);
    if (ret < 0)
        return ret;
    return utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static void copy_up_close_directory(DIR **dir)
{
    if (*dir != NULL)
        closedir(*dir);
}

static int copy_directory(int from, int to, unsigned depth, struct error *err)
{
    if (depth > DEPTH_MAX)
        return error_text(err, -ELOOP, "tmpcopyup: directories are nested deeper than %d", DEPTH_MAX);
    int listed = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    __attribute__((cleanup(copy_up_close_directory))) DIR *dir = listed < 0 ? NULL : fdopendir(listed);
    if (dir == NULL) {
        int code = -errno;
        fd_close(&listed);
        return error_set(err, code, "tmpcopyup: read directory");
    }
    struct dirent *entry;
    while (errno = 0, (entry = readdir(dir)) != NULL) {
        if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
            continue;
        if (err != NULL)
            err->code = 0;
        int ret = copy_entry(from, to, entry->d_name, depth, err);
        /* The innermost level reports the failure. Each level above adds its name. */
        if (ret < 0)
            return err != NULL && err->code != 0 ? ret
                                                 : error_set(err, ret, "tmpcopyup: copy '%s'", entry->d_name);
    }
    return errno != 0 ? error_set(err, -errno, "tmpcopyup: read directory") : 0;
}

int tmpcopyup(int from, int to, bool mode, struct error *err)
{
    cleanup_fd int source = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int target = openat(to, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (source < 0 || target < 0 || fstat(source, &st) < 0)
        return error_set(err, -errno, "tmpcopyup: open the directories");
    int ret = copy_directory(source, target, 0, err);
    if (ret < 0)
        return ret;
    ret = copy_metadata(source, target, &st, mode);
    return ret < 0 ? error_set(err, ret, "tmpcopyup: set owner and mode of the directory") : 0;
}
