/* The init of a container, from its clone to the goal of the creation. */
#pragma once

struct create_options;
struct creation;
struct error;
struct seccomp_handover;

/* Clone the init and serve it until creation->goal is reached: init waits for start, or has executed its
 * program. Before that, the record on disk and options->pid_file name the process. Init is cloned into the
 * cgroup `cgroup_fd` and waits on `start_socket`. Both are -1 for none, and stay the caller's. `handover` may
 * be NULL. The creation owns what is stored in it (pidfd, sync, devices), also after a failure. Return 0 or a
 * negative errno, which is init's own reason if it gives one. This function does not return in init. */
int creation_spawn(struct creation *creation, const struct create_options *options, int cgroup_fd,
                   int start_socket, struct seccomp_handover *handover, struct error *err);
