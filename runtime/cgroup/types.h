/* Where a cgroup is, and the plan of one: what the parts of this room share. */
#ifndef PYSBX_CGROUP_TYPES_H
#define PYSBX_CGROUP_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cgroup_device_program; /* devices.h */

enum cgroup_manager {
    CGROUP_MANAGER_CGROUPFS, /* the runtime makes the directory itself */
    CGROUP_MANAGER_SYSTEMD,  /* systemd makes a transient scope */
    CGROUP_MANAGER_DISABLED, /* the container stays in the cgroup of its creator */
};

/* Where a container's cgroup is: what the state record keeps, enough to find, change and remove it. */
struct cgroup_ref {
    enum cgroup_manager manager;
    const char *mount; /* where cgroup2 is mounted: "/sys/fs/cgroup"; NULL when nowhere */
    const char *path;  /* the container's cgroup below the mount, begins with "/"; "" when disabled */
    const char *scope; /* systemd: name of the unit, "libpod-ID.scope"; else NULL */
    bool user_bus;     /* systemd: the unit belongs to the user's manager, not to the system's */
    bool rootless;     /* no privilege over the host's cgroups: worded in errors, device programs left out */
};

/* One value for one file of the cgroup. */
struct cgroup_write {
    const char *file;       /* "memory.max" */
    const char *value;      /* as written, without newline */
    const char *controller; /* "memory": what a missing file is blamed on */
    const char *source;     /* JSON path below linux.resources: "memory.limit" */
    const char *usage;      /* when not NULL: refuse while this counter is above the value */
    bool optional;          /* the value is no limit: a missing file is no error */
    bool or_next;           /* when the file is missing the next entry stands in; else that one is skipped */
    bool or_later; /* EINVAL: once more after all others (cpu.max and cpu.max.burst bound each other) */
};

struct cgroup_writes {
    struct cgroup_write *items; /* in the order they are written */
    size_t count;
};

/* What cgroup_create and cgroup_attach_* will do; in the arena, not changed after cgroup_plan. */
struct cgroup_plan {
    struct cgroup_ref ref;
    const char *reason;   /* why cgroups are disabled although they were not asked to be; else NULL */
    const char *slice;    /* systemd: the scope's slice */
    const char *subgroup; /* systemd: last part of ref.path, made within the scope; "" for none */
    struct cgroup_writes writes;
    const struct cgroup_device_program *devices; /* NULL: no device rules to enforce */
    const struct systemd_properties *properties; /* systemd: of the scope, systemd_properties.h */
    bool delegate;                               /* the container may manage its cgroup: chown to owner_uid */
    uint32_t owner_uid;                          /* on the host */
};

struct cgroup_options {
    enum cgroup_manager manager;
    const char *id; /* of the container: names the cgroup when the specification does not */
    bool rootless;  /* not root, or root of a user namespace only */
};

#endif
