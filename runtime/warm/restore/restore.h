/* Turn the calling process, which is about to become the container's program, into the interpreter of a
 * snapshot. There is no execve. The process already is in the container's namespaces, root, cgroup and
 * identity; only its memory is exchanged. Everything that can fail happens in restore_prepare, where the
 * caller can still fall back to execve. restore_go does not return. */
#pragma once

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

/* Return why this build of the runtime cannot make or restore snapshots, in words, or NULL. */
const char *restore_unavailable(void);

/* Map the parts of `snapshot` that need only its file, `file`, while the rest of the request is unknown or
 * does not exist yet. With `copy`, pages of its write set in these parts are made private, and with
 * `core_dumps` also those that only a core dump needs. That takes memory, which counts for the current cgroup
 * of the caller and is on its current NUMA node. NULL: the machine differs, or this process has something at
 * the snapshot's addresses, and nothing has changed. */
struct restore *restore_begin(const struct snapshot *snapshot, int file, bool copy, bool core_dumps);

/* Continue with *out, which restore_begin has made for the same snapshot, or which is NULL.
 *
 * Compare the machine, open and compare the files, and place restorer, stack, arguments and filter where the
 * snapshot has nothing. Return 0 or negative errno. -ESTALE names a file that differs, -ENOTSUP an unsuitable
 * kernel, CPU or layout, and -ENOMEM a limit that is too small. After an error nothing has changed for the
 * caller, the mapping that was begun is undone, and *out is NULL. The request's strings, snapshot, filter
 * instructions and labels are used until restore_go, and so are the descriptors unless the snapshot was
 * mapped. Resource limits and identity are those at the time of the call. */
int restore_prepare(const struct restore_request *request, struct restore **out, struct error *err);

/* Return whether the snapshot is mapped already, so that only the descriptors of the labels are still
 * needed. */
bool restore_is_mapped(const struct restore *restore);

/* Release it, and its memory. NULL: nothing. */
void restore_free(struct restore *restore);

/* Jump. A failure after the old memory is gone ends the process with exit code 1. The error is sent to
 * `error_fd`, a socket, in one message: two ints, error_message and a negative errno, and a text with its
 * NUL, as in container/sync.h. Success closes error_fd. -1: no message. */
_Noreturn void restore_go(struct restore *restore, int error_fd);
