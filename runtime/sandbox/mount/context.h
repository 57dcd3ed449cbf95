/* Facts about the container and the runtime that the mount files need. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The caller fills it in from the specification and its own process. */
struct rootfs_context {
    const char *bundle;     /* absolute path of the bundle */
    bool user_namespace;    /* the container has a user namespace, new or joined, that is not the runtime's */
    int joined_userns;      /* descriptor of a user namespace that is joined; -1: none */
    bool runtime_in_userns; /* the runtime is not in the initial user namespace, so it has no mknod */
    bool parent_privileged; /* the runtime has CAP_SYS_ADMIN in its user namespace: it may open sources */
    bool new_pid, new_net, new_ipc, new_cgroup; /* namespaces that are created with the container */
    bool new_mount;              /* create a mount namespace; else mount in a shared one, at root.path */
    bool no_pivot;               /* move the root over "/" and chroot, for ramdisks */
    const char *cgroup_path;     /* the container's cgroup below the cgroup2 mount; "" when unknown */
    const char *cgroup_mount;    /* where cgroup2 is mounted on the host; NULL: nowhere */
    uint32_t root_uid, root_gid; /* uid 0 and gid 0 of the container as the child sees them */
};
