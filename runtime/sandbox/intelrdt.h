/* Allocation and monitoring of cache and memory bandwidth through resctrl
 * (Documentation/filesystems/resctrl.rst), runtime-spec linux.intelRdt. */
#ifndef PYSBX_SANDBOX_INTELRDT_H
#define PYSBX_SANDBOX_INTELRDT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct arena;
struct error;
struct json_out;
struct spec_intel_rdt;

/* The place where the kernel's documentation mounts resctrl. */
#define INTELRDT_MOUNT "/sys/fs/resctrl"

struct intelrdt_plan {
    const char *group;    /* directory below the mount: closID or the container's id; NULL: nothing to do */
    const char *monitor;  /* name of its monitoring group: the container's id; NULL: none */
    const char *schemata; /* lines for the schemata file; NULL: keep those of the group */
    bool named;           /* the group is a closID: it may exist before and stays afterwards */
};

/* The groups that intelrdt_create made and intelrdt_destroy removes. Write them to the state record before
 * they are made. */
struct intelrdt_made {
    bool group, monitor;
};

/* Plan the groups. rdt NULL: there is nothing to do. This makes no system call. Return 0, or -EINVAL with the
 * JSON path. */
int intelrdt_plan(struct arena *a, const struct spec_intel_rdt *rdt, const char *id,
                  struct intelrdt_plan *out, struct error *err);

/* Open the mounted resctrl and verify its magic number. Return a descriptor, or -ENOTSUP if it is not
 * mounted. */
int intelrdt_open(struct error *err);

/* Parent, once the process exists: make the groups, write the schemata, move the process. Without schemata a
 * closID must exist already. Undo everything on failure. root: the result of intelrdt_open; tests pass a
 * directory with the same files. Return 0 or a negative errno. */
int intelrdt_create(const struct intelrdt_plan *plan, int root, pid_t pid, struct intelrdt_made *made,
                    struct error *err);
/* `update`: write the schemata of a plan to a group that exists. Return 0 or a negative errno. */
int intelrdt_update(const char *group, const struct intelrdt_plan *plan, int root, struct error *err);
/* `exec`: move one more process into the container's groups. Return 0 or a negative errno. */
int intelrdt_join(const struct intelrdt_plan *plan, int root, pid_t pid, struct error *err);
/* Remove the groups in `made`. A group that is already gone is no error. group and monitor: as in the plan.
 * Return 0 or a negative errno. */
int intelrdt_destroy(const char *group, const char *monitor, const struct intelrdt_made *made, int root,
                     struct error *err);

/* Write a map of group, monitoring group and schemata, and whether `delete` keeps the group. */
void intelrdt_describe(const struct intelrdt_plan *plan, struct json_out *out);

#endif
