/* Staying in the foreground with a process of a container. The process receives the runtime's signals, its
 * terminal is relayed to the runtime's, and its status goes to the caller. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct error;

struct wait_signals {
    bool blocked;
    sigset_t before;
};

#define WAIT_SIGNALS_NONE ((struct wait_signals){0})

/* Hold back every signal that is forwarded later. Call this before the process exists, so that none is
 * lost. */
void wait_block_signals(struct wait_signals *signals);
/* Restore the signals that were blocked before wait_block_signals. */
void wait_restore_signals(struct wait_signals *signals);

/* A question that the caller may ask while the process runs: a byte on a socket, and a byte back. The process
 * lives as long as the caller's end of the socket. */
struct wait_question {
    int socket;                /* -1: none */
    bool (*answer)(void *arg); /* true is WAIT_YES; NULL: false */
    void *arg;
};
#define WAIT_YES 'y'
#define WAIT_NO  'n'

/* Wait until the process, a child of the runtime, ends. Meanwhile forward signals to it, relay its terminal
 * and reap all children of the runtime, which may be a subreaper. master: the terminal, -1 for none; it stays
 * the caller's. Answer the question, and kill the process when its socket is closed. NULL: none. *status
 * is set as by wait(2). Return 0 or a negative errno. */
int wait_for_process(pid_t pid, int pidfd, int master, struct wait_question *question, int *status,
                     struct error *err);

/* Return the exit code for a status of wait(2): 128+n for a signal. */
int wait_exit_code(int status);
