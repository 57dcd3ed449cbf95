/* Paths below an untrusted root, by openat2(2) (Linux 5.6). */
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/sys.h"

/* A rename anywhere in the tree makes the kernel give up with EAGAIN. An attacker can cause that on purpose.
 * */
#define MAX_RACES 128

static int open_how(int dirfd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
    struct open_how how = {.flags = (uint64_t)flags | O_CLOEXEC, .resolve = resolve};
    if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE)
        how.mode = mode;
    for (int i = 0; i < MAX_RACES; i++) {
        int fd = sys_openat2(dirfd, path, &how, sizeof(how));
        if (fd >= 0)
            return fd;
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
    }
    return -EAGAIN;
}

int path_open_in_root(int rootfd, const char *path, int flags, mode_t mode)
{
    return open_how(rootfd, path, flags, mode, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

int path_open_in_root_nosymlink(int rootfd, const char *path, int flags, mode_t mode)
{
    return open_how(rootfd, path, flags, mode, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS);
}

int path_open_beneath(int dirfd, const char *path, int flags)
{
    return open_how(dirfd, path, flags, 0, RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS);
}

int path_open_no_magic(const char *path, int flags, mode_t mode)
{
    return open_how(AT_FDCWD, path, flags, mode, RESOLVE_NO_MAGICLINKS);
}

/* Descend to `path` one component at a time. Each prefix is resolved again from the root, so that links have
 * the same meaning as in the container. A missing directory is created with mkdirat below the descriptor of
 * its parent. */
static int make_directories(int rootfd, char *path, mode_t mode)
{
    cleanup_fd int dir = path_open_in_root(rootfd, "/", O_PATH | O_DIRECTORY, 0);
    if (dir < 0)
        return dir;
    char *p = path;
    for (;;) {
        while (*p == '/')
            p++;
        if (*p == '\0')
            return fd_steal(&dir);
        char *end = strchrnul(p, '/');
        char after = *end;
        *end = '\0';
        int next = path_open_in_root(rootfd, path, O_PATH | O_DIRECTORY, 0);
        if (next == -ENOENT) {
            if (mkdirat(dir, p, mode) < 0 && errno != EEXIST)
                next = -errno;
            else
                next = path_open_in_root(rootfd, path, O_PATH | O_DIRECTORY, 0);
        }
        *end = after;
        if (next < 0)
            return next;
        fd_close(&dir);
        dir = next;
        p = end;
    }
}

int path_mkdir_in_root(int rootfd, const char *path, mode_t mode)
{
    int fd = path_open_in_root(rootfd, path, O_PATH | O_DIRECTORY, 0);
    if (fd != -ENOENT)
        return fd;
    char copy[PATH_MAX];
    int ret = path_copy(copy, path);
    return ret < 0 ? ret : make_directories(rootfd, copy, mode);
}

/* Return an O_PATH descriptor of the directory that holds the last component of `path`, after creating it
 * with mode 0755 if it is missing. *name is the last component, in the arena: never empty, "." or "..".
 * Negative errno, -EINVAL if there is no such component. */
static int parent_in_root(struct arena *a, int rootfd, const char *path, const char **name)
{
    char *copy = arena_strdup(a, path);
    size_t len = strlen(copy);
    while (len > 0 && copy[len - 1] == '/')
        copy[--len] = '\0';
    char *slash = strrchr(copy, '/');
    *name = slash != NULL ? slash + 1 : copy;
    if ((*name)[0] == '\0' || strcmp(*name, ".") == 0 || strcmp(*name, "..") == 0)
        return -EINVAL;
    if (slash == NULL)
        return path_mkdir_in_root(rootfd, "/", 0755);
    char *dir = arena_strndup(a, copy, (size_t)(slash - copy));
    return path_mkdir_in_root(rootfd, dir[0] != '\0' ? dir : "/", 0755);
}

int path_mkfile_in_root(int rootfd, const char *path, mode_t mode)
{
    int fd = path_open_in_root(rootfd, path, O_PATH, 0);
    if (fd != -ENOENT)
        return fd;
    cleanup_arena struct arena a = {0};
    const char *name;
    cleanup_fd int dir = parent_in_root(&a, rootfd, path, &name);
    if (dir < 0)
        return dir;
    /* O_EXCL never follows a link in the last component: a dangling one is EEXIST, not a file outside. */
    cleanup_fd int made =
        RETRY(openat(dir, name, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, mode));
    const int code = made < 0 && errno != EEXIST ? -errno : 0;
    fd = path_open_in_root(rootfd, path, O_PATH, 0);
    return fd == -ENOENT && code != 0 ? code : fd;
}

char *path_clean(struct arena *a, const char *path)
{
    char *out = arena_alloc(a, strlen(path) + 2);
    size_t used = 0;
    for (const char *p = path; *p != '\0';) {
        size_t len = strcspn(p, "/");
        if (len == 2 && p[0] == '.' && p[1] == '.') {
            while (used > 0 && out[--used] != '/')
                ;
        } else if (len > 0 && !(len == 1 && p[0] == '.')) {
            out[used++] = '/';
            memcpy(out + used, p, len);
            used += len;
        }
        p += len;
        p += *p == '/';
    }
    if (used == 0)
        out[used++] = '/';
    out[used] = '\0';
    return out;
}

int path_copy(char out[static PATH_MAX], const char *path)
{
    size_t size = strlen(path) + 1;
    if (size > PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(out, path, size);
    return 0;
}

char *path_join(struct arena *a, const char *dir, const char *name)
{
    if (name[0] == '/')
        return arena_strdup(a, name);
    size_t len = strlen(dir);
    return arena_printf(a, "%s%s%s", dir, len > 0 && dir[len - 1] == '/' ? "" : "/", name);
}
