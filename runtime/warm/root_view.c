/* Resolve a path as the kernel will: in the topmost mount of each path, following links step by step, also
 * from one mount into another (path_resolution(7)). */
#include "warm/root_view.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "spec/spec.h"

/* The kernel's limit: path_resolution(7). */
#define MAX_LINKS 40

/* Return the rest of the path after the destination, "" or beginning with a slash; NULL if the path is
 * elsewhere. */
static const char *beneath(const char *path, const char *destination)
{
    const char *rest = str_after(path, destination);
    if (rest == NULL || str_eq(destination, "/"))
        return rest != NULL ? path : NULL;
    return *rest == '\0' || *rest == '/' ? rest : NULL;
}

/* Return whether the path is beneath a mount that is visible only from inside, like most masked paths.
 * Nothing beneath it is examined from outside. */
static bool is_hidden(const struct root_view *view, const char *path)
{
    for (size_t i = view->count; i > 0; i--)
        if (beneath(path, view->mounts[i - 1].destination) != NULL)
            return view->mounts[i - 1].source == NULL;
    return false;
}

void root_view_plan(struct arena *a, const struct spec *spec, int rootfs, const char *bundle,
                    struct root_view *out)
{
    const struct str_list none = {0}, *masked = spec->linux_ != NULL ? &spec->linux_->masked_paths : &none;
    struct root_view_mount *mounts =
        ARENA_ARRAY(a, spec->mounts.count + masked->count, struct root_view_mount);
    for (size_t i = 0; i < spec->mounts.count; i++) {
        const struct spec_mount *mount = &spec->mounts.items[i];
        mounts[i] = (struct root_view_mount){.destination = path_clean(a, mount->destination),
                                             .recursive = spec_mount_has_option(mount, "rbind")};
        if (spec_mount_is_bind(mount) && mount->source != NULL)
            mounts[i].source = path_join(a, bundle, mount->source);
    }
    *out = (struct root_view){rootfs, mounts, spec->mounts.count};
    for (size_t i = 0; i < masked->count; i++) {
        const char *path = path_clean(a, masked->items[i]);
        if (!is_hidden(out, path))
            mounts[out->count++] = (struct root_view_mount){.destination = path};
    }
}

/* Open a path that contains no links. Return -ELOOP if there is one, also at its end unless flags contain
 * O_NOFOLLOW and O_PATH. */
static int open_straight(const struct root_view *view, const char *path, int flags)
{
    for (size_t i = view->count; i > 0; i--) { /* the last one is on top */
        const struct root_view_mount *mount = &view->mounts[i - 1];
        const char *inside = beneath(path, mount->destination);
        if (inside == NULL)
            continue;
        if (mount->source == NULL)
            return -EXDEV;
        bool itself = *inside == '\0'; /* it may be a file */
        cleanup_fd int source = open(mount->source, (itself ? flags & ~O_NOFOLLOW : O_PATH) | O_CLOEXEC);
        if (source < 0)
            return -errno;
        return itself ? fd_steal(&source) : path_open_in_root_nosymlink(source, inside, flags, 0);
    }
    return path_open_in_root_nosymlink(view->root, path, flags, 0);
}

/* Return whether the path leads to a mount point. Such directories are created if they are missing, in a new
 * tmpfs too. */
static bool is_on_the_way(const struct root_view *view, const char *path)
{
    for (size_t i = 0; i < view->count; i++)
        if (beneath(view->mounts[i].destination, path) != NULL)
            return true;
    return false;
}

/* Read a link; return 0 if it is not a link. */
static ssize_t read_link(const struct root_view *view, const char *path, char *target, size_t size)
{
    cleanup_fd int fd = open_straight(view, path, O_PATH | O_NOFOLLOW);
    if (fd < 0)
        return (fd == -ENOENT || fd == -EXDEV) && is_on_the_way(view, path) ? 0 : fd;
    ssize_t n = readlinkat(fd, "", target, size);
    if (n < 0)
        return errno == EINVAL || errno == ENOENT ? 0 : -errno;
    return (size_t)n < size ? n : -ENAMETOOLONG;
}

/* Append a component to a path without links; return false if the path gets too long. */
static bool step(char *path, size_t end, const char *name, size_t length)
{
    if (end + 1 + length >= PATH_MAX)
        return false;
    path[end] = '/';
    memcpy(path + end + 1, name, length);
    path[end + 1 + length] = '\0';
    return true;
}

/* Write the path without links to `done`; both buffers have PATH_MAX bytes. A path below something that does
 * not exist gives -ENOENT. */
static int resolve(const struct root_view *view, char *todo, char *done)
{
    char target[PATH_MAX], joined[PATH_MAX];
    const char *p = todo;
    unsigned links = 0;
    done[0] = '\0';
    for (;;) {
        p += strspn(p, "/");
        size_t length = strcspn(p, "/"), end = strlen(done);
        if (length == 0)
            return 0;
        const char *name = p;
        p += length;
        if (length == 1 && name[0] == '.')
            continue;
        if (length == 2 && strncmp(name, "..", 2) == 0) {
            char *last = strrchr(done, '/');
            if (last != NULL)
                *last = '\0';
            continue;
        }
        if (!step(done, end, name, length))
            return -ENAMETOOLONG;
        ssize_t n = read_link(view, done, target, sizeof(target));
        if (n < 0)
            return (int)n;
        if (n == 0)
            continue;
        if (++links > MAX_LINKS)
            return -ELOOP;
        done[target[0] == '/' ? 0 : end] = '\0';
        if (snprintf(joined, sizeof(joined), "%.*s%s", (int)n, target, p) >= (int)sizeof(joined))
            return -ENAMETOOLONG;
        memcpy(todo, joined, strlen(joined) + 1);
        p = todo;
    }
}

int root_view_open(const struct root_view *view, const char *path, int flags)
{
    if (view->count == 0)
        return path_open_in_root(view->root, path, flags, 0);
    int fd = open_straight(view, path, flags);
    if (fd != -ELOOP)
        return fd;
    char todo[PATH_MAX], done[PATH_MAX];
    int ret = path_copy(todo, path);
    if (ret < 0)
        return ret;
    ret = resolve(view, todo, done);
    return ret < 0 ? ret : open_straight(view, done[0] != '\0' ? done : "/", flags);
}

bool root_view_is_mounted(const struct root_view *view, const char *directory, const char *name)
{
    for (size_t i = 0; i < view->count; i++) {
        const char *rest = beneath(view->mounts[i].destination, directory);
        if (rest != NULL && beneath(rest + strspn(rest, "/"), name) != NULL)
            return true;
    }
    return false;
}

const char *root_view_mount_beneath(const struct root_view *view, const char *directory)
{
    for (size_t i = 0; i < view->count; i++) {
        const char *rest = beneath(view->mounts[i].destination, directory);
        if (rest != NULL && rest[strspn(rest, "/")] != '\0')
            return view->mounts[i].destination;
    }
    return NULL;
}

/* These are created for each container: no file of a snapshot is there (ELSEWHERE in agent/bootstrap.py). If
 * the program is there, its first process looks for itself. */
static bool is_elsewhere(const char *destination)
{
    return str_eq(destination, "/dev/shm") || str_eq(destination, "/dev/mqueue");
}

bool root_view_is_exact(const struct root_view *view)
{
    for (size_t i = 0; i < view->count; i++) {
        const struct root_view_mount *mount = &view->mounts[i];
        struct root_view before = {view->root, view->mounts, i};
        struct stat st;
        cleanup_fd int there = open_straight(&before, mount->destination, O_PATH);
        if (there == -ELOOP)
            return false;
        /* The container does not see the mounts beneath this source. Podman mounts /dev/shm like this. */
        if (mount->source != NULL && !mount->recursive && !is_elsewhere(mount->destination) &&
            (stat(mount->source, &st) < 0 || S_ISDIR(st.st_mode)))
            return false;
    }
    return true;
}
