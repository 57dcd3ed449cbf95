/* The manager "cgroupfs": the runtime itself creates and removes directories. Scopes of systemd use parts of
 * it too. */
#pragma once

#include <stddef.h>

struct cgroup_plan;
struct cgroup_ref;
struct error;

/* Implement cgroup_create for this manager. */
int cgroup_fs_create(const struct cgroup_plan *plan, int *dirfd, struct error *err);

/* Implement cgroup_destroy for this manager. */
int cgroup_fs_destroy(const struct cgroup_ref *ref, struct error *err);

/* Implement cgroup_discard for this manager. */
void cgroup_fs_discard(const struct cgroup_ref *ref);

/* Do the first half of cgroup_fs_destroy: kill the processes in ref->path and below, and wait until they have
 * ended. */
int cgroup_fs_empty(const struct cgroup_ref *ref, struct error *err);

/* Write limits and ownership into the cgroup open at dirfd. Controllers are enabled from the first `top`
 * bytes of `path` downwards. 0 or negative errno. */
int cgroup_fs_configure(const struct cgroup_plan *plan, const char *path, size_t top, int dirfd,
                        struct error *err);
