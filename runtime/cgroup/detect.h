/* Where cgroup2 is mounted and which cgroup a process is in. */
#ifndef PYSBX_CGROUP_DETECT_H
#define PYSBX_CGROUP_DETECT_H

#include <limits.h>
#include <sys/types.h>

struct arena;
struct error;

/* Mount point of the cgroup2 file system, NULL when it is mounted nowhere. One system call where systemd's
 * usual layout is used. */
const char *cgroup_detect_mount(struct arena *a);

/* The cgroup2 path of a process (0: the caller), as seen from the caller's cgroup namespace; begins with "/".
 * 0 or negative errno. */
int cgroup_detect_path(pid_t pid, char path[PATH_MAX], struct error *err);

#endif
