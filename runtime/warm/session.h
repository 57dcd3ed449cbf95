/* The snapshot of a session: of a process in the middle of its work, which a fork of it continues in a
 * container of its own. It is a file of the caller's: not in the store, found by no key. It depends on no
 * file but those that are mapped, for nothing in it will be imported again. Whoever can read it knows what
 * the session knew. */
#ifndef PYSBX_WARM_SESSION_H
#define PYSBX_WARM_SESSION_H

#include <stdint.h>
#include <sys/types.h>

#include "warm/snapshot/snapshot.h"

struct error;

/* Open a file for the snapshot, for reading and writing; one that does not exist is made with mode 0600. It
 * has to be empty. Descriptor or negative errno: -EPERM if others may open it. */
int session_create(const char *path, struct error *err);

/* Save a process that has parked itself by the agent of this runtime (fork() in warm/agent/agent.c) to an
 * empty file. `root` is its root directory, `limit` the most bytes. 0 or negative errno, with nothing left in
 * the file: -ENOTSUP and -EFBIG name what cannot be saved (warm/dump/dump.h). */
int session_save(pid_t pid, int root, uint64_t limit, int out, struct error *err);

/* Open a snapshot that session_save has made, and only such a one; *out is to be closed by snapshot_close.
 * Descriptor or negative errno: -EPERM if others may open it, -EINVAL for anything else. */
int session_open(const char *path, struct snapshot *out, struct error *err);

#endif
