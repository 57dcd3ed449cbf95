/* The eight namespaces (namespaces(7)): which are made, which are joined, and the clone(2) that does it. */
#ifndef PYSBX_SANDBOX_NAMESPACES_H
#define PYSBX_SANDBOX_NAMESPACES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/arena.h"
#include "spec/spec.h"

struct error;
struct json_out;

#define NAMESPACE_TYPES 8

struct namespaces_plan {
    int make; /* CLONE_NEW* of namespaces that are new */
    int join; /* CLONE_NEW* of namespaces given by path */
    struct namespace_join {
        const char *type, *path;
        int flag;
        size_t index; /* in linux.namespaces, for messages */
        int fd;       /* opened by namespaces_open; -1 before */
    } joins[NAMESPACE_TYPES];
    size_t join_count;
    /* linux.timeOffsets as the lines of timens_offsets (time_namespaces(7)); NULL when there are none */
    const char *time_offsets;
    /* The container's process cannot be cloned by the runtime itself: a namespace has to be entered before
     * the clone that the runtime must not enter (pid; or anything before a new user namespace; or the user
     * namespace). */
    bool intermediate;
    /* The new network namespace, which takes the kernel longer than all others together, is made by the
     * runtime while its child mounts: see namespaces_make_network. runtime is then a pidfd of the runtime,
     * for the child; else -1. */
    bool network_overlapped;
    int runtime;
};

/* Sort linux.namespaces into make and join. */
int namespaces_plan(struct arena *a, const struct spec *spec, struct namespaces_plan *out, struct error *err);

/* Parent: open the namespaces given by path and check their types (NS_GET_NSTYPE). A path that leads to the
 * runtime's own namespace needs no join and is dropped. */
int namespaces_open(struct namespaces_plan *plan, struct error *err);
void namespaces_close(struct namespaces_plan *plan);

/* Will the container have a namespace of this type (as in config.json) that is not the runtime's own? */
bool namespaces_has(const struct namespaces_plan *plan, const char *type);

/* Clone the container's init: a child of the calling process in every case, in new pid, user, mount, network,
 * ipc and uts namespaces as planned. cgroup_fd: the cgroup it is born in, or -1. Returns 0 in the child, its
 * pid in the parent. What is left for the child: namespaces_enter, namespaces_make_cgroup. */
pid_t namespaces_clone(struct namespaces_plan *plan, int cgroup_fd, int *pidfd, struct error *err);

/* Plan that the runtime makes the network namespace, if one is to be made, and while its child mounts. The
 * runtime stays in it, so it must have nothing left to do in its own. A new user namespace has to own the
 * network namespace; then the clone makes it. Opens a descriptor of the calling process, which has to be the
 * one that clones. 0 or a negative errno. */
int namespaces_overlap_network(struct namespaces_plan *plan, struct error *err);
/* Runtime, after the clone: make the network namespace, if that is planned, and stay in it. */
int namespaces_make_network(const struct namespaces_plan *plan, struct error *err);
/* Child, once the runtime has made it: enter it. */
int namespaces_enter_network(struct namespaces_plan *plan, struct error *err);

/* Child: once the user namespace has its mappings, join the remaining namespaces, and make a time namespace,
 * which clone cannot (offsets have to be written before a process enters). */
int namespaces_enter(struct namespaces_plan *plan, struct error *err);

/* Child, in its final cgroup: make the cgroup namespace, if there is to be one. */
int namespaces_make_cgroup(const struct namespaces_plan *plan, struct error *err);

/* 1 when the calling process is in the initial user namespace (its inode number is fixed in the kernel), 0
 * when it is in another one, or negative errno. */
int namespaces_in_initial_user(struct error *err);

void namespaces_describe(const struct namespaces_plan *plan, struct json_out *out);

/* The types as config.json calls them, for features. */
extern const char *const namespaces_names[NAMESPACE_TYPES];

#endif
