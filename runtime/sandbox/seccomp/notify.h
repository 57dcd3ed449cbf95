/* The listener of a filter with SCMP_ACT_NOTIFY on its way from the container's process to the agent at
 * linux.seccomp.listenerPath. seccomp_unotify(2), runtime-spec "container process state".
 *
 * Once the filter is loaded every system call of the process, write(2) and sendmsg(2) included, may wait for
 * an agent that does not have the listener yet. So nothing after the load is a system call: the process puts
 * the descriptor's number into a page that it shares with the runtime and waits there, in user mode, until
 * the runtime has taken a copy by pidfd_getfd(2) and sent it. The runtime must therefore be present: a filter
 * with notify is loaded while `create`, `run` or `exec` is serving the process, never later.
 *
 *   runtime                                          process
 *   seccomp_handover_new
 *   clone ---------------------------------------->  …
 *   (told: about to load)                     <----  (tells: about to load)
 *   seccomp_notify_send: waits, takes, sends  <===>  seccomp_install: loads, waits
 *   seccomp_handover_free                            execve
 */
#ifndef PYSBX_SANDBOX_SECCOMP_NOTIFY_H
#define PYSBX_SANDBOX_SECCOMP_NOTIFY_H

#include <sys/types.h>

struct error;
struct json_out;
struct seccomp_plan;

struct seccomp_handover;

/* Runtime, before the clone. *out stays NULL, and nothing is done, when the plan has no listener. */
int seccomp_handover_new(const struct seccomp_plan *plan, struct seccomp_handover **out, struct error *err);
void seccomp_handover_free(struct seccomp_handover *handover);

/* Runtime: wait until the process has loaded its filter, take the listener and let the process go on, for a
 * listener that the runtime keeps. Descriptor or negative errno: the process (pidfd) has ended before. */
int seccomp_notify_take(struct seccomp_handover *handover, int pidfd, struct error *err);

/* Process (seccomp_install calls it): publish the listener and wait until the runtime has it. Makes no system
 * call where the clock is in the vDSO. A runtime that does not answer in 30 seconds has died: the process
 * then ends by a trap, since it could not even be sure to be allowed to exit. */
void seccomp_handover_give(struct seccomp_handover *handover, int listener);

struct seccomp_receiver {
    const char *oci_version;
    pid_t pid; /* of the process, as the runtime sees it */
    /* Writes the state object of the container (runtime-spec "state"). */
    void (*write_state)(struct json_out *out, const void *arg);
    const void *arg;
};

/* Runtime: wait until the process has loaded its filter, take the listener, send it to plan->listener_path
 * with the container process state and let the process go on. Nothing to do without a listener. Fails when
 * the process (pidfd) ends before (its own report says why), when the agent cannot be reached or refuses; the
 * process is to be killed then, for it still waits. */
int seccomp_notify_send(const struct seccomp_plan *plan, struct seccomp_handover *handover, int pidfd,
                        const struct seccomp_receiver *receiver, struct error *err);

#endif
