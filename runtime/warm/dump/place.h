/* The path of a mapped file beneath the container's root. Podman mounts an image volume as an overlay whose
 * layer is itself an overlay. There /proc/PID/maps shows the file of the inner overlay, with a path from the
 * root of that layer. So the name may lead nowhere, or to another file. */
#pragma once

#include <stddef.h>

#include <stdbool.h>

struct arena;
struct dump_file;
struct error;
struct tracee;

/* The first three members are the caller's; the others begin as zeros. */
struct dump_places {
    const struct tracee *tracee;
    int root; /* descriptor of its root directory */
    struct arena *arena;
    const char **mounts; /* the mount points of overlays, read when they are needed */
    size_t mount_count;
    const char *last; /* the mount of the last file that was found there, */
    size_t cut;       /* and the bytes of its name that were not part of the path */
};

/* Find the file beneath the root: at its name, or beneath a mount of an overlay. A path counts if stat(2)
 * gives its file the device and inode of the mapping. It also counts if a mapping of its file looks the same
 * in /proc/self/maps: same device, same inode, same name. Store the path, in the arena, and a descriptor of
 * O_PATH; or NULL and -1 if no path leads to the file. Return 0 or negative errno. */
int dump_place_find(struct dump_places *places, const struct dump_file *file, const char **path, int *fd,
                    struct error *err);

/* Return whether /proc/self/maps shows a mapping of `fd` as this file, or stat(2) gives the same numbers. */
bool dump_place_is(struct arena *a, int fd, const struct dump_file *file);
