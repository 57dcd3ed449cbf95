/* Turn the calling process, which is about to become the container's program, into the interpreter of a
 * snapshot. No execve: the process is in the container's namespaces, root, cgroup and identity already; what
 * is left is to exchange its memory. Everything that can fail happens in restore_prepare, where the caller
 * can still fall back to execve; restore_go does not return. */
#ifndef PYSBX_WARM_RESTORE_RESTORE_H
#define PYSBX_WARM_RESTORE_RESTORE_H

#include <linux/capability.h>
#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "warm/params.h"
#include "warm/restore/request.h"

struct error;
struct snapshot;
struct restore;

/* Why no snapshot can be made or restored by this build of the runtime, in words, or NULL. */
const char *restore_unavailable(void);

/* Map what of the snapshot `image` takes nothing but its file, `file`, while the rest of the request is not
 * known yet, or what it names is not there. With `copy`, pages of its write set that lie there are made
 * private, which takes memory: it counts for the cgroup, and lies on the node, that the caller has now. NULL:
 * the machine is another, or this process has something where the snapshot belongs, and nothing has changed.
 */
struct restore *restore_begin(const struct snapshot *snapshot, int file, bool copy);

/* Goes on with *out, which restore_begin has made for the same image, or is NULL.
 *
 * Compares the machine, opens and compares the files, places restorer, stack, arguments and filter where
 * nothing of the snapshot lies. 0 or negative errno: -ESTALE names a file that differs, -ENOTSUP a kernel,
 * processor or layout that the snapshot is not for, -ENOMEM a limit that is too small for it. Nothing has
 * changed for the caller then, what was begun is given up, and *out is NULL. The strings, the image, the
 * filter's instructions and the labels of the request are used until restore_go, the descriptors as well
 * unless the snapshot was mapped; the limits of resources and the identity are those of the moment. */
int restore_prepare(const struct restore_request *request, struct restore **out, struct error *err);

/* Is the snapshot mapped already, so that of the descriptors only the labels' are needed any more? */
bool restore_is_mapped(const struct restore *restore);

/* Give it up, and the memory back. NULL: nothing. */
void restore_free(struct restore *restore);

/* The jump. A failure after the old memory is gone ends the process with exit code 1. What has failed is sent
 * to `error_fd`, a socket, in one message: two ints, error_message and a negative errno, and a text with its
 * NUL, as container/sync.h has it. Success closes error_fd. -1: nobody listens. */
_Noreturn void restore_go(struct restore *restore, int error_fd);

#endif
