/* A view of a container's files as the container will see them: its root and the bind mounts over it. It is
 * used before the container exists, or from inside. Links cannot lead out of it (openat2(2)). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct error;
struct spec;

struct root_view_mount {
    const char *destination; /* clean and absolute */
    const char *source;      /* on the host; NULL: not visible from outside (a tmpfs, proc) */
    bool recursive;          /* with the mounts beneath the source */
};

struct root_view {
    int root; /* O_PATH or a directory; not owned */
    const struct root_view_mount *mounts;
    size_t count;
};

/* Make the view of a container that does not exist yet; relative sources are in the bundle. */
void root_view_plan(struct arena *a, const struct spec *spec, int rootfs, const char *bundle,
                    struct root_view *out);

/* Open `path` (absolute and clean, in the container) with open(2) flags. Return a descriptor or negative
 * errno. -EXDEV: the path leads into a mount that is not visible from outside. Makes system calls only. */
int root_view_open(const struct root_view *view, const char *path, int flags);

/* Return whether there is a mount on `name` in the directory (absolute and clean), or beneath it. Then a
 * descriptor of the directory shows the files under the mount. */
bool root_view_is_mounted(const struct root_view *view, const char *directory, const char *name);

/* Return the first mount anywhere beneath the directory (absolute and clean), or NULL. */
const char *root_view_mount_beneath(const struct root_view *view, const char *directory);

/* Return whether the container will see the same files as the view, where the view shows any. It will not if
 * a mount point is reached through a link, or a directory is mounted without the mounts beneath it. Engines
 * mount /dev/shm and /dev/mqueue like that, but no file of a snapshot is there. */
bool root_view_is_exact(const struct root_view *view);
