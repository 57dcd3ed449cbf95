/* Open and make mount targets below an untrusted root. All lookups go through base/path.h. */
#include "sandbox/mount/target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"

/* The kernel's limit MAXSYMLINKS. */
#define MAX_LINKS 40

static int target_make(int rootfd, const char *path, enum mount_target_kind kind)
{
    return kind == MOUNT_TARGET_FILE ? path_mkfile_in_root(rootfd, path, 0644)
                                     : path_mkdir_in_root(rootfd, path, 0755);
}

/* Read the link at `prefix`, and write the path with its content instead of its name to `out` (PATH_MAX
 * bytes). `rest` follows the prefix, and begins with a slash. */
static int substitute(int rootfd, const char *prefix, const char *rest, char *out)
{
    char link[PATH_MAX];
    cleanup_fd int fd = path_open_in_root(rootfd, prefix, O_PATH | O_NOFOLLOW, 0);
    if (fd < 0)
        return fd;
    ssize_t n = readlinkat(fd, "", link, sizeof(link) - 1);
    if (n < 0)
        return -ENOENT;
    link[n] = '\0';
    const char *slash = strrchr(prefix, '/');
    int dir = link[0] == '/' || slash == NULL ? 0 : (int)(slash - prefix);
    int len = snprintf(out, PATH_MAX, "%.*s/%s%s", dir, prefix, link, rest);
    return len < 0 || len >= PATH_MAX ? -ENAMETOOLONG : 0;
}

/* Find the first component that is a dangling link, and replace it by its content. `path` has room for
 * PATH_MAX bytes. */
static int resolve_dangling(int rootfd, char *path)
{
    char prefix[PATH_MAX], out[PATH_MAX];
    memcpy(prefix, path, strlen(path) + 1);
    for (char *p = prefix; *p != '\0';) {
        p += strspn(p, "/");
        char *end = strchrnul(p, '/');
        char after = *end;
        *end = '\0';
        int fd = path_open_in_root(rootfd, prefix, O_PATH, 0);
        if (fd < 0) {
            int ret = fd == -ENOENT ? substitute(rootfd, prefix, path + (end - prefix), out) : fd;
            if (ret < 0)
                return ret;
            memcpy(path, out, strlen(out) + 1);
            return 0;
        }
        close(fd);
        *end = after;
        p = end;
    }
    return -ENOENT;
}

static int make_through_links(int rootfd, const char *path, enum mount_target_kind kind)
{
    int fd = target_make(rootfd, path, kind);
    if (fd != -ENOENT)
        return fd;
    char copy[PATH_MAX];
    int ret = path_copy(copy, path);
    if (ret < 0)
        return ret;
    for (int i = 0; i < MAX_LINKS && fd == -ENOENT; i++) {
        ret = resolve_dangling(rootfd, copy);
        if (ret < 0)
            return ret;
        fd = target_make(rootfd, copy, kind);
    }
    return fd == -ENOENT ? -ELOOP : fd;
}

/* Make the last component only, in few steps: usually nothing else is missing. -ENOENT, -EEXIST and the like
 * leave it to the careful way. */
static int make_last(int rootfd, const char *path, enum mount_target_kind kind)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash[1] == '\0')
        return -EINVAL;
    /* Keep the slash, so that "/" itself needs no special case. */
    int len = snprintf(dir, sizeof(dir), "%.*s", (int)(slash + 1 - path), path);
    if (len < 0 || len >= (int)sizeof(dir))
        return -ENAMETOOLONG;
    cleanup_fd int parent = path_open_in_root(rootfd, dir, O_PATH | O_DIRECTORY, 0);
    if (parent < 0)
        return parent;
    if (kind != MOUNT_TARGET_FILE) {
        if (mkdirat(parent, slash + 1, 0755) < 0)
            return -errno;
    } else {
        cleanup_fd int made =
            openat(parent, slash + 1, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (made < 0)
            return -errno;
    }
    int fd = openat(parent, slash + 1, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int target_open(int rootfd, const char *path, enum mount_target_kind kind, int flags,
                       struct error *err)
{
    int fd = path_open_in_root(rootfd, path, O_PATH | flags, 0);
    if (fd == -ENOENT && kind == MOUNT_TARGET_ANY)
        return fd;
    if (fd == -ENOENT) {
        fd = make_last(rootfd, path, kind);
        if (fd < 0)
            fd = make_through_links(rootfd, path, kind);
        if (fd < 0)
            return error_set(err, fd, "make mount target '%s'", path);
    }
    if (fd < 0)
        return error_set(err, fd, "open mount target '%s'", path);
    return fd;
}

int mount_target_open(int rootfd, const char *path, enum mount_target_kind kind, struct error *err)
{
    return target_open(rootfd, path, kind, 0, err);
}

int mount_target_open_nofollow(int rootfd, const char *path, enum mount_target_kind kind, struct error *err)
{
    return target_open(rootfd, path, kind, O_NOFOLLOW, err);
}

int mount_target_open_strict(int rootfd, const char *path, struct error *err)
{
    int fd = path_open_in_root_nosymlink(rootfd, path, O_PATH | O_DIRECTORY, 0);
    if (fd == -ENOENT) {
        cleanup_fd int made = path_mkdir_in_root(rootfd, path, 0755);
        if (made < 0)
            return error_set(err, made, "make mount target '%s'", path);
        fd = path_open_in_root_nosymlink(rootfd, path, O_PATH | O_DIRECTORY, 0);
    }
    if (fd == -ELOOP || fd == -ENOTDIR)
        return error_text(err, fd,
                          "'%s' in the root file system is a symbolic link or not a directory: refusing to "
                          "mount on it",
                          path);
    if (fd < 0)
        return error_set(err, fd, "open mount target '%s'", path);
    return fd;
}
