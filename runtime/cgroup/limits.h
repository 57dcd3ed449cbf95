/* Enable controllers down to a cgroup, and write the planned values to its files. */
#pragma once

#include <stddef.h>

struct cgroup_ref;
struct cgroup_writes;
struct error;

/* The reason why controllers are missing in a cgroup, for the error of a limit that needs one of them. */
struct cgroup_obstacle {
    unsigned controllers; /* bits of the missing ones */
    int code;             /* negative errno of the failed write; 0 if none failed */
    size_t ancestor;      /* the cgroup of that write: length of its path within the path below */
};

/* Enable the usual controllers, as far as the kernel has them, for the cgroup `leaf` at `path`. They are
 * written to cgroup.subtree_control of its ancestors, from the first `top` bytes of `path` (0: from the root)
 * down to the parent. If they are enabled already, this costs two short reads. A controller that cannot be
 * enabled is not an error here, but described in *obstacle. */
void cgroup_controllers_enable(const char *mount, const char *path, size_t top, int leaf,
                               struct cgroup_obstacle *obstacle);

/* Return -EBUSY if a value that is checked first (memory.checkBeforeUpdate) is below the current use,
 * otherwise 0. To be called before any limit is written and before systemd is informed, which would write it
 * to the scope above. */
int cgroup_limits_check(int dirfd, const struct cgroup_writes *writes, struct error *err);

/* Write the values. 0 or negative errno. The error has the JSON path and, for a missing controller, its name,
 * the cgroup and the remedy. `obstacle` may be NULL. */
int cgroup_limits_write(const struct cgroup_ref *ref, int dirfd, const struct cgroup_writes *writes,
                        const struct cgroup_obstacle *obstacle, struct error *err);
