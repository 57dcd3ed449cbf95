/* Whether the inode numbers of directories identify them. In an overlay over layers of several file systems,
 * each mount gives a directory another number, in the order of the lookups. Podman mounts image volumes and
 * `:O` volumes like this. */
#pragma once

#include <stdbool.h>

/* Return whether the number of this directory is the same in another mount; `dir` may be one of O_PATH. True
 * if that is unknown: then a snapshot is stale in the next mount, and never wrong. Lists directories of its
 * mount, at most a few thousand names. */
bool numbering_lasts(int dir);
