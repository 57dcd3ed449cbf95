/* What the caller of the room knows about the process that will act. */
#ifndef PYSBX_SANDBOX_MOUNT_CONTEXT_H
#define PYSBX_SANDBOX_MOUNT_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

/* Facts the caller knows about the process that will act. */
struct rootfs_context {
    const char *bundle;     /* absolute path of the bundle */
    bool user_namespace;    /* the container gets a new or joined user namespace (not the runtime's own) */
    bool runtime_in_userns; /* the runtime itself is not in the initial user namespace: no mknod */
    bool parent_privileged; /* the runtime holds CAP_SYS_ADMIN in its user namespace: it may open sources */
    bool new_pid, new_net, new_ipc, new_cgroup; /* namespaces that are made new with the container */
    bool
        new_mount; /* a mount namespace of its own; else all is mounted in one that is shared, at root.path */
    bool no_pivot; /* move the root over "/" and chroot: for ramdisks */
    const char *cgroup_path;     /* the container's cgroup below the cgroup2 mount; "" when unknown */
    const char *cgroup_mount;    /* where cgroup2 is mounted on the host; NULL: nowhere */
    uint32_t root_uid, root_gid; /* the container's ids 0 as the child sees them */
};

#endif
