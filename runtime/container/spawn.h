/* The init of a container, from its clone to the goal of the creation. */
#ifndef PYSBX_CONTAINER_SPAWN_H
#define PYSBX_CONTAINER_SPAWN_H

struct create_options;
struct creation;
struct error;
struct seccomp_handover;

/* Clone the init and serve it until creation->goal is reached: it waits for start, or has executed its
 * program. Before that the record on disk names the process, and so does options->pid_file. The init is born
 * in the cgroup `cgroup_fd` and waits on `start_socket`; -1 for none, and both stay the caller's. `handover`
 * may be NULL. What is stored in the creation (pidfd, sync, devices) is its own after a failure, too. 0 or a
 * negative errno: the init's own reason where it gives one. Does not return in the init. */
int creation_spawn(struct creation *creation, const struct create_options *options, int cgroup_fd,
                   int start_socket, struct seccomp_handover *handover, struct error *err);

#endif
