/* The location and the plan of a cgroup, which the files of this room share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cgroup_device_program; /* devices.h */

enum cgroup_manager {
    CGROUP_MANAGER_CGROUPFS, /* the runtime itself creates the directory */
    CGROUP_MANAGER_SYSTEMD,  /* systemd creates a transient scope */
    CGROUP_MANAGER_DISABLED, /* the container stays in the cgroup of its creator */
};

/* The location of a container's cgroup. The state record contains it, because it is enough to find, change
 * and remove the cgroup. */
struct cgroup_ref {
    enum cgroup_manager manager;
    const char *mount; /* mount point of cgroup2: "/sys/fs/cgroup"; NULL if there is none */
    const char *path;  /* the container's cgroup below the mount, begins with "/"; "" if disabled */
    const char *scope; /* systemd: name of the unit, "libpod-ID.scope"; otherwise NULL */
    bool user_bus;     /* systemd: the unit belongs to the user's manager, not the system's */
    bool rootless;     /* no privilege over the host's cgroups: errors mention delegation, and there is no BPF
                          device filter */
};

/* One value for one file of the cgroup. */
struct cgroup_write {
    const char *file;       /* "memory.max" */
    const char *value;      /* as written, without newline */
    const char *controller; /* "memory": the controller that a missing file indicates */
    const char *source;     /* JSON path below linux.resources: "memory.limit" */
    const char *usage;      /* if not NULL, refuse while this counter is above the value */
    bool optional;          /* the value is not a limit, so a missing file is not an error */
    bool or_next;           /* if the file is missing, use the next entry, otherwise skip that one */
    bool or_later; /* on EINVAL, retry after all others (cpu.max and cpu.max.burst bound each other) */
};

struct cgroup_writes {
    struct cgroup_write *items; /* in the order of the writes */
    size_t count;
};

/* The plan for cgroup_create and cgroup_attach_*, in the arena. It does not change after cgroup_plan. */
struct cgroup_plan {
    struct cgroup_ref ref;
    const char *reason;   /* why cgroups are disabled without a request; otherwise NULL */
    const char *slice;    /* systemd: the scope's slice */
    const char *subgroup; /* systemd: last part of ref.path, created within the scope; "" for none */
    struct cgroup_writes writes;
    const struct cgroup_device_program *devices; /* NULL: no device rules to enforce */
    const struct systemd_properties *properties; /* systemd: properties of the scope */
    bool delegate;      /* the container may manage its cgroup: chown it to owner_uid */
    uint32_t owner_uid; /* on the host */
};

struct cgroup_options {
    enum cgroup_manager manager;
    const char *id; /* id of the container; names the cgroup if the specification does not */
    bool rootless;  /* not root, or only root of a user namespace */
};
