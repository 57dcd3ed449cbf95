/* The mount option tmpcopyup: a new tmpfs begins with the content of the directory it covers. */
#ifndef PYSBX_SANDBOX_MOUNT_COPY_UP_H
#define PYSBX_SANDBOX_MOUNT_COPY_UP_H

#include <stdbool.h>

struct error;

/* Copy everything in the directory `from` into the directory `to` (descriptors, O_PATH is enough): files,
 * directories, symbolic links, FIFOs, sockets, devices, with owner, mode, times and extended attributes; and
 * owner and attributes, and with `mode` the mode, of the directory itself. Hard links become separate files.
 * No link is followed, nothing outside `from` is read. Device nodes are left out where they may not be made
 * (user namespaces), attributes where the file system has none. 0 or negative errno with text (-ENOSPC: the
 * tmpfs is too small; -ELOOP: nested deeper than 128). */
int tmpcopyup(int from, int to, bool mode, struct error *err);

#endif
