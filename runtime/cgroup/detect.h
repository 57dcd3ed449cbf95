/* Find the mount point of cgroup2 and the cgroup of a process. */
#pragma once

#include <limits.h>
#include <sys/types.h>

struct arena;
struct error;

/* Return the mount point of the cgroup2 file system, or NULL if there is none. This is one system call with
 * systemd's usual layout. */
const char *cgroup_detect_mount(struct arena *a);

/* Set `path` to the cgroup2 path of a process (0: the caller), relative to the caller's cgroup namespace; it
 * begins with "/". 0 or negative errno. */
int cgroup_detect_path(pid_t pid, char path[PATH_MAX], struct error *err);
