/* Staying in the foreground with a process of a container: signals go to it, its terminal to ours, its status
 * to the caller. */
#ifndef PYSBX_CONTAINER_WAIT_H
#define PYSBX_CONTAINER_WAIT_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct error;

struct wait_signals {
    bool blocked;
    sigset_t before;
};

#define WAIT_SIGNALS_NONE ((struct wait_signals){0})

/* Hold back every signal that is to be forwarded, from before the process exists: none is lost. */
void wait_block_signals(struct wait_signals *signals);
void wait_restore_signals(struct wait_signals *signals);

/* Forward signals to the process, relay its terminal (master, -1 without one; ownership stays), reap whatever
 * the runtime has become the subreaper of, until the process, a child, ends. *exit_code: its status, 128+n
 * for a signal. */
int wait_for_process(pid_t pid, int pidfd, int master, int *exit_code, struct error *err);

#endif
