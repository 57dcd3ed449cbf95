/* The manager "cgroupfs": directories made and removed by the runtime itself; parts of it serve the scopes of
 * systemd as well. */
#ifndef PYSBX_CGROUP_FS_H
#define PYSBX_CGROUP_FS_H

#include <stddef.h>

struct cgroup_plan;
struct cgroup_ref;
struct error;

/* cgroup_create for this manager. */
int cgroup_fs_create(const struct cgroup_plan *plan, int *dirfd, struct error *err);

/* cgroup_destroy for this manager. */
int cgroup_fs_destroy(const struct cgroup_ref *ref, struct error *err);

/* cgroup_discard for this manager. */
void cgroup_fs_discard(const struct cgroup_ref *ref);

/* The first half of cgroup_fs_destroy: kill the processes in ref->path and beneath and wait until they have
 * ended. */
int cgroup_fs_empty(const struct cgroup_ref *ref, struct error *err);

/* Write limits and ownership into the cgroup open at dirfd; controllers are enabled from the
 * first `top` bytes of `path` downwards. */
int cgroup_fs_configure(const struct cgroup_plan *plan, const char *path, size_t top, int dirfd,
                        struct error *err);

#endif
