/* Terminals in the foreground: the runtime copies between its own terminal and the container's. An engine's
 * monitor does this otherwise. termios(3), ioctl_tty(2). */
#pragma once

struct error;

/* Put the caller's terminal (standard input, if it is one) into raw mode, pass its size to the container's,
 * and follow SIGWINCH. Copy standard input to `master` and `master` to standard output. Stop when `stop_fd`
 * reports and the container's output is copied. stop_fd: a pidfd, or another descriptor that becomes readable
 * or hangs up.
 *
 * The end of standard input is passed on as the end-of-file character if the container's terminal is in
 * canonical mode. The terminal and the signal mask are restored on return. The caller keeps both descriptors.
 * Return 0 or a negative errno. */
int terminal_relay(int master, int stop_fd, struct error *err);

/* The descriptors of a relay that changes no terminal of the caller. */
struct terminal_relay_ends {
    int input, output;
    int master; /* non-blocking */
    int stop;
    int signals; /* a signalfd(2) of SIGWINCH; -1: none */
};
/* Copy as terminal_relay does, between these descriptors. Return 0 or a negative errno. */
int terminal_relay_between(const struct terminal_relay_ends *ends, struct error *err);
