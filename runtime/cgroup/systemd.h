/* The manager "systemd": a transient scope for each container, over D-Bus. */
#pragma once

#include <limits.h>
#include <sys/types.h>

struct arena;
struct cgroup_job;
struct cgroup_options;
struct cgroup_plan;
struct cgroup_ref;
struct error;
struct spec;
struct systemd_properties;

/* Plan the names of scope and slice from linux.cgroupsPath ("slice:prefix:name", where each part may be
 * empty), their expected path, and the properties from plan->writes and the annotations. 0 or negative errno.
 * */
int cgroup_systemd_plan(struct arena *a, const struct spec *spec, const struct cgroup_options *options,
                        struct cgroup_plan *plan, struct error *err);

/* Implement cgroup_attach_begin and cgroup_attach_finish for this manager. The first call of a function that
 * needs libsystemd loads it. */
int cgroup_systemd_attach_begin(const struct cgroup_plan *plan, pid_t pid, struct cgroup_job **out,
                                struct error *err);
int cgroup_systemd_attach_finish(struct cgroup_job *job, char path[PATH_MAX], struct error *err);

/* Implement cgroup_destroy for this manager. */
int cgroup_systemd_destroy(const struct cgroup_ref *ref, struct error *err);

/* Change the properties of the scope. 0 or negative errno. */
int cgroup_systemd_update(const struct cgroup_ref *ref, const struct systemd_properties *properties,
                          struct error *err);

/* Ask systemd to move a process to `path`, which is in the scope and begins with "/". 0 or negative errno. */
int cgroup_systemd_move(const struct cgroup_ref *ref, const char *path, pid_t pid, struct error *err);

/* Return the path of a slice below its manager's root, in the arena: "a-b.slice" is "/a.slice/a-b.slice",
 * "-.slice" is "". NULL if it is not the name of a slice. */
const char *cgroup_systemd_slice_path(struct arena *a, const char *slice);
