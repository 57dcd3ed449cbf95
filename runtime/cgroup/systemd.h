/* The manager "systemd": a transient scope for each container, by D-Bus. */
#ifndef PYSBX_CGROUP_SYSTEMD_H
#define PYSBX_CGROUP_SYSTEMD_H

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

/* Names of scope and slice from linux.cgroupsPath ("slice:prefix:name", each part may be empty), the path
 * they are expected at, and the properties from plan->writes and the annotations. */
int cgroup_systemd_plan(struct arena *a, const struct spec *spec, const struct cgroup_options *options,
                        struct cgroup_plan *plan, struct error *err);

/* cgroup_attach_begin and _finish for this manager. libsystemd is loaded by the first call of any function
 * here that needs it. */
int cgroup_systemd_attach_begin(const struct cgroup_plan *plan, pid_t pid, struct cgroup_job **out,
                                struct error *err);
int cgroup_systemd_attach_finish(struct cgroup_job *job, char path[PATH_MAX], struct error *err);

/* cgroup_destroy for this manager. */
int cgroup_systemd_destroy(const struct cgroup_ref *ref, struct error *err);

/* Change the properties of the scope. */
int cgroup_systemd_update(const struct cgroup_ref *ref, const struct systemd_properties *properties,
                          struct error *err);

/* Have systemd move a process into `path` (begins with "/"), which is in the scope. */
int cgroup_systemd_move(const struct cgroup_ref *ref, const char *path, pid_t pid, struct error *err);

/* The path of a slice below its manager's root: "a-b.slice" is "/a.slice/a-b.slice", "-.slice" is "". NULL
 * when it is not the name of a slice. */
const char *cgroup_systemd_slice_path(struct arena *a, const char *slice);

#endif
