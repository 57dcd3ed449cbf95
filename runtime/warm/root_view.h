/* A container's files as it will see them, looked at before it exists, or from within: its root, and what is
 * bind mounted over it. Links lead nowhere else (openat2(2)). */
#ifndef PYSBX_WARM_ROOT_VIEW_H
#define PYSBX_WARM_ROOT_VIEW_H

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct error;
struct spec;

struct root_view_mount {
    const char *destination; /* clean and absolute */
    const char *source;      /* on the host; NULL: cannot be seen from outside (a tmpfs, proc) */
    bool recursive;          /* with what is mounted beneath the source */
};

struct root_view {
    int root; /* O_PATH or a directory; not owned */
    const struct root_view_mount *mounts;
    size_t count;
};

/* The look of a container that does not exist yet; sources that are relative are in the bundle. */
void root_view_plan(struct arena *a, const struct spec *spec, int rootfs, const char *bundle,
                    struct root_view *out);

/* Open `path` (absolute and clean, in the container) with open(2) flags; descriptor or negative errno.
 * -EXDEV: the path leads into a mount that cannot be seen from outside. Makes system calls only. */
int root_view_open(const struct root_view *view, const char *path, int flags);

/* Is something mounted on `name` in the directory (absolute and clean), or beneath it? Then a descriptor of
 * the directory shows what is under the mount. */
bool root_view_is_mounted(const struct root_view *view, const char *directory, const char *name);

/* Is something mounted anywhere beneath the directory (absolute and clean)? */
bool root_view_has_mounts(const struct root_view *view, const char *directory);

/* Is what is seen from outside, where it can be seen, what the container will see? Not when a mount point is
 * reached through a link, or a directory is mounted without what is mounted beneath it; /dev/shm and
 * /dev/mqueue, which engines mount so, have no file of a snapshot. */
bool root_view_is_exact(const struct root_view *view);

#endif
