/* The mount option tmpcopyup: a new tmpfs starts with a copy of the directory that it covers. */
#pragma once

#include <stdbool.h>

struct error;

/* Copy everything in the directory `from` into the directory `to`: files, directories, symbolic links, FIFOs,
 * sockets and devices, with owner, mode, times and extended attributes. Copy owner and attributes of the
 * directory itself as well, and its mode if `mode` is true. from, to: descriptors, for which O_PATH is
 * enough; the caller keeps them.
 *
 * Hard links become separate files. No link is followed, and nothing outside `from` is read. Device nodes are
 * left out where the process may not make them (user namespaces), and attributes where the file system has
 * none. Return 0 or a negative errno with text. -ENOSPC: the tmpfs is too small. -ELOOP: the tree is deeper
 * than 128 directories. */
int tmpcopyup(int from, int to, bool mode, struct error *err);
