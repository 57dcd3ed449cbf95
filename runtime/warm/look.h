/* A container's files as it will see them, looked at before it exists, or from within: its root, and what is
 * bind mounted over it. Links are followed beneath the root or the mount that the path leads into
 * (openat2(2)), never outside. */
#ifndef PYSBX_WARM_LOOK_H
#define PYSBX_WARM_LOOK_H

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct error;
struct spec;

struct look_mount {
    const char *destination; /* clean and absolute */
    const char *source;      /* on the host; NULL: cannot be seen from outside (a tmpfs, proc) */
};

struct look {
    int root; /* O_PATH or a directory; not owned */
    const struct look_mount *mounts;
    size_t count;
};

/* The look of a container that does not exist yet; sources that are relative are in the bundle. */
void look_plan(struct arena *a, const struct spec *spec, int rootfs, const char *bundle, struct look *out);

/* Open `path` (absolute and clean, in the container) with open(2) flags; descriptor or negative errno.
 * -EXDEV: the path leads into a mount that cannot be seen from outside. Makes system calls only. */
int look_open(const struct look *look, const char *path, int flags);

#endif
