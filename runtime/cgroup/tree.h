/* A cgroup directory and what is beneath it: opening, waiting for its events, listing its processes, removing
 * it. The container may have made whatever it likes in there: nothing recurses, nothing trusts a depth. */
#ifndef PYSBX_CGROUP_TREE_H
#define PYSBX_CGROUP_TREE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* O_PATH descriptor of `path` (begins with "/") below the mount; never leaves it, follows no link. Negative
 * errno. */
int cgroup_tree_open(const char *mount, const char *path);

/* Value of "key N" in a flat-keyed file (cgroup.events, memory.events, …). 0 or negative errno, -ENODATA
 * without that key. */
int cgroup_tree_value(int dirfd, const char *file, const char *key, uint64_t *value);

/* Wait until `key` in cgroup.events has that value: 0, -ETIMEDOUT after timeout_ms, -ENOENT when the cgroup
 * is gone, other negative errno. */
int cgroup_tree_wait(int dirfd, const char *key, uint64_t value, int timeout_ms);

/* Processes in the cgroup and all beneath; *pids is the caller's to free. 0 or negative errno. */
int cgroup_tree_pids(int dirfd, pid_t **pids, size_t *count);

/* Kill every process in the cgroup and beneath. Does not wait. 0 or negative errno. */
int cgroup_tree_kill(int dirfd);

/* Remove all cgroups beneath, not the directory itself. 0 or negative errno: -EBUSY
 * when there are processes. */
int cgroup_tree_clear(int dirfd);

/* Milliseconds of the monotonic clock. */
int64_t cgroup_now_ms(void);

#endif
