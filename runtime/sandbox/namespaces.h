/* The eight namespaces (namespaces(7)): which ones to create, which ones to join, and the clone(2) that does
 * it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/arena.h"
#include "spec/spec.h"

struct error;
struct json_out;

#define NAMESPACE_TYPES 8

struct namespaces_plan {
    int make; /* CLONE_NEW* of namespaces to create */
    int join; /* CLONE_NEW* of namespaces given by path */
    struct namespace_join {
        const char *type, *path;
        int flag;
        size_t index; /* in linux.namespaces, for messages */
        int fd;       /* opened by namespaces_open; -1 before */
    } joins[NAMESPACE_TYPES];
    size_t join_count;
    /* linux.timeOffsets as the lines of timens_offsets (time_namespaces(7)), or NULL. */
    const char *time_offsets;
    int time_file; /* opened by namespaces_open_time; -1 before */
    /* The runtime cannot clone the container's process itself: before the clone, a namespace must be entered
     * that the runtime must not enter. That is a pid namespace, a user namespace, or any namespace if the
     * user namespace is new. */
    bool intermediate;
    /* The runtime makes the new network namespace while its child mounts, because the kernel needs more time
     * for it than for all others together: see namespaces_make_network. `runtime` is then a pidfd of the
     * runtime for the child, and -1 otherwise. */
    bool network_overlapped;
    int runtime;
};

/* Sort linux.namespaces into those to create and those to join. Return 0 or a negative errno. */
int namespaces_plan(struct arena *a, const struct spec *spec, struct namespaces_plan *out, struct error *err);

/* Child, before it changes its ids: open the file for linux.timeOffsets, if there are any. It belongs to root
 * of the host for a process that has changed its ids (proc(5), PR_SET_DUMPABLE). Return 0 or a negative
 * errno. */
int namespaces_open_time(struct namespaces_plan *plan, struct error *err);

/* Parent: open the namespaces given by path and check their types (NS_GET_NSTYPE). A path to the runtime's
 * own namespace is dropped, because it needs no join. Return 0 or a negative errno. */
int namespaces_open(struct namespaces_plan *plan, struct error *err);
/* Close the descriptors of the plan. */
void namespaces_close(struct namespaces_plan *plan);

/* True if the container will have a namespace of this type (as in config.json) other than the runtime's own.
 */
bool namespaces_has(const struct namespaces_plan *plan, const char *type);

/* Clone the container's init as a child of the calling process, in new pid, user, mount, network, ipc and uts
 * namespaces as planned. cgroup_fd: the cgroup in which it starts, or -1. The child still has to call
 * namespaces_enter and namespaces_make_cgroup. Return 0 in the child; in the parent, its pid or a negative
 * errno. The parent owns *pidfd. */
pid_t namespaces_clone(struct namespaces_plan *plan, int cgroup_fd, int *pidfd, struct error *err);

/* Plan that the runtime makes the network namespace while its child mounts, if a new one is asked for. The
 * runtime stays in it, so it must have nothing left to do in its own. With a new user namespace the clone
 * makes the network namespace, because the user namespace must own it. This opens a descriptor of the calling
 * process, which must be the one that clones. Return 0 or a negative errno. */
int namespaces_overlap_network(struct namespaces_plan *plan, struct error *err);
/* Runtime, after the clone: make the network namespace if that is planned, and stay in it. Return 0 or a
 * negative errno. */
int namespaces_make_network(const struct namespaces_plan *plan, struct error *err);
/* Child, once the runtime has made the network namespace: enter it. Return 0 or a negative errno. */
int namespaces_enter_network(struct namespaces_plan *plan, struct error *err);

/* Child, once the user namespace has its mappings: join the remaining namespaces, and make those that the
 * clone has not made. It cannot make a time namespace, because the offsets must be written before a process
 * enters. Return 0 or a negative
 * errno. */
int namespaces_enter(struct namespaces_plan *plan, struct error *err);

/* Child, in its final cgroup: make the cgroup namespace if one is planned. Return 0 or a negative errno. */
int namespaces_make_cgroup(const struct namespaces_plan *plan, struct error *err);

/* Return 1 if the calling process is in the initial user namespace (the kernel fixes its inode number), 0 if
 * it is in another one, or a negative errno. */
int namespaces_in_initial_user(struct error *err);

/* Write an array with an object for each namespace that is created or joined. */
void namespaces_describe(const struct namespaces_plan *plan, struct json_out *out);
