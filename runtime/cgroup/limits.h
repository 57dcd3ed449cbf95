/* Controllers made available down to a cgroup, and the planned values written to its files. */
#ifndef PYSBX_CGROUP_LIMITS_H
#define PYSBX_CGROUP_LIMITS_H

#include <stddef.h>

struct cgroup_ref;
struct cgroup_writes;
struct error;

/* Why controllers are not available in a cgroup: kept for the error of a limit that needs one of them. */
struct cgroup_obstacle {
    unsigned controllers; /* bits of those concerned */
    int code;             /* negative errno of the write that failed, 0: none failed */
    size_t ancestor;      /* the cgroup it was written in: length of its path within the path below */
};

/* Enable what the kernel has of the usual controllers in each ancestor's cgroup.subtree_control, from the
 * first `top` bytes of `path` (0: from the root) down to the parent of the cgroup `leaf` at `path`. Two short
 * reads when they are enabled already. That some cannot be enabled is no error here. */
void cgroup_controllers_enable(const char *mount, const char *path, size_t top, int leaf,
                               struct cgroup_obstacle *obstacle);

/* -EBUSY when a value that is to be checked first (memory.checkBeforeUpdate) is below what is in use. Comes
 * before anybody is told a limit, systemd included: it would write it to the scope above. */
int cgroup_limits_check(int dirfd, const struct cgroup_writes *writes, struct error *err);

/* Write the values. An error names the JSON path, and for a missing controller its name, the cgroup and what
 * helps. `obstacle` may be NULL. */
int cgroup_limits_write(const struct cgroup_ref *ref, int dirfd, const struct cgroup_writes *writes,
                        const struct cgroup_obstacle *obstacle, struct error *err);

#endif
