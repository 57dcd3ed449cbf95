/* A cgroup directory and its descendants: open them, wait for events, list processes, remove them. The
 * container may have created any tree below its cgroup. So nothing recurses, and nothing depends on a depth.
 * */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Return an O_PATH descriptor of `path` (begins with "/") below the mount, or negative errno. The lookup
 * never leaves the mount and follows no link. */
int cgroup_tree_open(const char *mount, const char *path);

/* Read the value of "key N" in a flat-keyed file (cgroup.events, memory.events, …). 0 or negative errno,
 * -ENODATA if the key is missing. */
int cgroup_tree_value(int dirfd, const char *file, const char *key, uint64_t *value);

/* Wait until `key` in cgroup.events has this value. 0, -ETIMEDOUT after timeout_ms, -ENOENT if the cgroup is
 * gone, or another negative errno. */
int cgroup_tree_wait(int dirfd, const char *key, uint64_t value, int timeout_ms);

/* Return the processes in the cgroup and below. The caller frees *pids. 0 or negative errno. */
int cgroup_tree_pids(int dirfd, pid_t **pids, size_t *count);

/* Kill every process in the cgroup and below, without waiting for their end. 0 or negative errno. */
int cgroup_tree_kill(int dirfd);

/* Remove all descendants, but not the directory itself. 0 or negative errno, -EBUSY if there are processes.
 * */
int cgroup_tree_clear(int dirfd);

/* Return the time of the monotonic clock in milliseconds. */
int64_t cgroup_now_ms(void);
