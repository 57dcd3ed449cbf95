/* The snapshot of a session: a process in the middle of its work, which a fork of it continues in a container
 * of its own. The file belongs to the caller: it is not in the store, and no key finds it. It depends only on
 * the files that are mapped, because nothing in it will be imported again. A user with read access to the
 * file has the data of the session. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "warm/snapshot/snapshot.h"

struct dump_base;
struct error;

/* Open a file for the snapshot, for reading and writing; create a missing one with mode 0600. It must be
 * empty. Return a descriptor or negative errno: -EPERM if other users may open it. */
int session_create(const char *path, struct error *err);

/* Save to an empty file a process that has parked itself through the agent of this runtime (fork() in
 * warm/agent/agent.c). `root` is its root directory, `limit` the maximum number of bytes. Pages that are
 * the same in `base` are left out (NULL: none). Return 0, or
 * negative errno with nothing left in the file: -ENOTSUP and -EFBIG name the obstacle (warm/dump/dump.h). */
int session_save(pid_t pid, int root, uint64_t limit, const struct dump_base *base, int out,
                 struct error *err);

/* Ask a process that waits in the agent's park() for a fork to save, which ends by itself after 30 seconds.
 * *child: the fork, also after an error, or 0. Return 0 or negative errno; -ENOTSUP names the obstacle. */
int session_fork(pid_t pid, pid_t *child, struct error *err);

/* Open a snapshot made by session_save, and no other file; the caller closes *out with snapshot_close. Return
 * a descriptor or negative errno: -EPERM if other users may open it, -EINVAL for anything else. */
int session_open(const char *path, struct snapshot *out, struct error *err);

/* Open the base of a snapshot, if it has one, and check that it is that one, private and unchanged. `path`:
 * of the snapshot, for messages; `base`: NULL if it was not given. Store a descriptor, or -1. Return 0 or
 * negative errno. */
int session_open_base(const char *path, const struct snapshot *snapshot, const char *base, int *out,
                      struct error *err);

/* Wait for a snapshot, and its base if it has one, which come over a socket as descriptors for reading.
 * Others may not open them; their owner may be a user that this process cannot see. The result is that of
 * session_open and session_open_base. */
int session_receive(int socket, struct snapshot *out, int *base, struct error *err);
