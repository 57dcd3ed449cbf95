/* Cache and memory bandwidth allocation and monitoring through resctrl
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

/* Where the kernel's documentation mounts it. */
#define INTELRDT_MOUNT "/sys/fs/resctrl"

struct intelrdt_plan {
    const char *group;    /* directory below the mount: closID or the container's id; NULL: nothing to do */
    const char *monitor;  /* name of the monitoring group in it: the container's id; NULL: none */
    const char *schemata; /* lines for the schemata file; NULL: the group's own stay */
    bool named;           /* the group is a closID: it may exist before and is then left behind */
};

/* What intelrdt_create made and intelrdt_destroy removes: to be kept in the state
 * record before it is made. */
struct intelrdt_made {
    bool group, monitor;
};

/* rdt NULL: nothing to do. The kernel is not asked yet. */
int intelrdt_plan(struct arena *a, const struct spec_intel_rdt *rdt, const char *id,
                  struct intelrdt_plan *out, struct error *err);

/* The mounted resctrl (its magic is verified): a descriptor, or -ENOTSUP when there is none. */
int intelrdt_open(struct error *err);

/* Parent, once the process exists: make the groups, write the schemata, move the process. Without schemata a
 * closID must exist already. On failure what was made is undone. root: from intelrdt_open; any directory that
 * looks like it serves the tests. */
int intelrdt_create(const struct intelrdt_plan *plan, int root, pid_t pid, struct intelrdt_made *made,
                    struct error *err);
/* `exec`: one more process into the groups of the container. */
int intelrdt_join(const struct intelrdt_plan *plan, int root, pid_t pid, struct error *err);
/* Remove what was made; what is gone already is no error. group and monitor as in the plan. */
int intelrdt_destroy(const char *group, const char *monitor, const struct intelrdt_made *made, int root,
                     struct error *err);

/* A map of group, monitoring group and schemata. */
void intelrdt_describe(const struct intelrdt_plan *plan, struct json_out *out);

#endif
