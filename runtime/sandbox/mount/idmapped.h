/* Id-mapped bind mounts (mount_setattr(2) MOUNT_ATTR_IDMAP, Linux 5.12): the mapping of a mount, and the user
 * namespace that carries it. */
#pragma once

#include <stdbool.h>

#include "spec/spec.h"

struct arena;
struct error;

struct idmap_mount {
    struct spec_idmaps uids, gids; /* container_id: on the file system; host_id: as the mount shows it */
};

/* Read the mapping of a user namespace into the arena: ids of the host are as this process sees them. Return
 * 0 or a negative errno with text. */
int idmap_mount_read(struct arena *a, int userns_fd, struct idmap_mount *out, struct error *err);

/* Parse the mapping of the option "idmap=uids=0-1000-10#10-2000-5;gids=@0-0-1" into the arena. Its triplets
 * are ID below, ID above, length; "#" separates ranges. In a triplet after "@", the second number is an id in
 * the container's user namespace, which `container` describes. Return 0 or -EINVAL with text. */
int idmap_mount_parse(struct arena *a, const char *text, const struct idmap_mount *container,
                      struct idmap_mount *out, struct error *err);

/* True if both have the same ranges in the same order, so that one user namespace serves both. */
bool idmap_mount_equal(const struct idmap_mount *a, const struct idmap_mount *b);

/* Make a user namespace with this mapping, by a short-lived child. It needs CAP_SETUID and CAP_SETGID to map
 * more than one's own id. Return its descriptor, which the caller owns, or a negative errno with text. */
int idmap_mount_userns(const struct idmap_mount *map, struct error *err);

/* Map a detached mount by a user namespace. recursive: map all mounts below it as well. Return 0 or a
 * negative errno with text. -EINVAL: the file system does not support id-mapped mounts. */
int idmap_mount_apply(int mount_fd, int userns_fd, bool recursive, struct error *err);
