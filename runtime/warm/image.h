/* A checkpoint on disk: a directory of the caller's with the snapshot of a session (warm/session.h) and a
 * file that names it, with its size and checksum. That file has the name by which Podman recognizes a
 * checkpoint. It is replaced last, so the directory has the old checkpoint or the new one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct error;

struct image {
    int dir;
    const char *path; /* of the directory */
    bool made;        /* it did not exist before */
    char name[32];    /* of the snapshot that is being written */
    int file;         /* for the snapshot: empty, for reading and writing */
};

/* Open the directory for a new checkpoint, and make it if it is missing. Return 0 or negative errno: -EPERM
 * if another user could change it. Always pass *out to image_abandon. */
int image_create(const char *path, struct image *out, struct error *err);

/* The snapshot is written: sync it, and make it the checkpoint of the directory. Return 0 or negative errno.
 */
int image_finish(struct image *image, const char *id, const char *version, struct error *err);

/* Remove what is not finished, and close the descriptors. */
void image_abandon(struct image *image);

/* Check the checkpoint of a directory. *snapshot: the path of its snapshot, in the arena. Return 0 or
 * negative errno: -ENOENT if there is none, -EUCLEAN if it is damaged, -EINVAL for one of another program. */
int image_open(struct arena *a, const char *path, const char **snapshot, struct error *err);
