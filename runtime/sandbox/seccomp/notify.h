/* Pass the listener of a filter with SCMP_ACT_NOTIFY from the container's process to the agent at
 * linux.seccomp.listenerPath. seccomp_unotify(2), runtime-spec "container process state".
 *
 * Once the filter is loaded, every system call of the process may wait for an agent that does not have the
 * listener yet, even write(2) and sendmsg(2). So the process makes no system call after the load. It stores
 * the descriptor's number in a page that it shares with the runtime, and waits there in user mode. The
 * runtime copies the descriptor with pidfd_getfd(2) and sends it. Therefore a filter with notify is loaded
 * only while `create`, `run` or `exec` serves the process, never later.
 *
 *   runtime                                        process
 *   seccomp_handover_new
 *   clone ---------------------------------------->  …
 *   (told: about to load)                     <----  (tells: about to load)
 *   seccomp_notify_send: waits, takes, sends  <===>  seccomp_install: loads, waits
 *   seccomp_handover_free                            execve */
#pragma once

#include <sys/types.h>

struct error;
struct json_out;
struct seccomp_plan;

struct seccomp_handover;

/* Runtime, before the clone: create the page. If the plan has no listener, do nothing and set *out to NULL.
 * Release it with seccomp_handover_free. Return 0 or a negative errno. */
int seccomp_handover_new(const struct seccomp_plan *plan, struct seccomp_handover **out, struct error *err);
/* Release the page. NULL is allowed. */
void seccomp_handover_free(struct seccomp_handover *handover);

/* Runtime, for a listener that it keeps: wait until the process has loaded its filter, copy the listener, and
 * let the process continue. Return a descriptor that the caller owns, or a negative errno if the process
 * (pidfd) has ended before. */
int seccomp_notify_take(struct seccomp_handover *handover, int pidfd, struct error *err);

/* Process (seccomp_install calls it): publish the listener and wait until the runtime has it. Where the vDSO
 * provides the clock, this makes no system call. If the runtime does not answer in 30 seconds, it has died.
 * The process then ends by a trap, because the filter might not even allow it to exit. */
void seccomp_handover_give(struct seccomp_handover *handover, int listener);

struct seccomp_receiver {
    const char *oci_version;
    pid_t pid; /* of the process, as the runtime sees it */
    /* Write the state object of the container (runtime-spec "state"). */
    void (*write_state)(struct json_out *out, const void *arg);
    const void *arg;
};

/* Runtime: wait until the process has loaded its filter. Then copy the listener, send it to
 * plan->listener_path with the container process state, and let the process continue. Without a listener, do
 * nothing. Return 0, or a negative errno if the process (pidfd) ends before (it reports the reason itself),
 * or the agent cannot be reached or refuses. The caller must kill the process after a failure, because it
 * still waits. */
int seccomp_notify_send(const struct seccomp_plan *plan, struct seccomp_handover *handover, int pidfd,
                        const struct seccomp_receiver *receiver, struct error *err);
