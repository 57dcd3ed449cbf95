/* Foreground terminals: the runtime copies between its own terminal and the container's, as an engine's
 * monitor does otherwise. termios(3), ioctl_tty(2). */
#ifndef PYSBX_SANDBOX_TERMINAL_RELAY_H
#define PYSBX_SANDBOX_TERMINAL_RELAY_H

struct error;

/* Put the caller's terminal (standard input, if it is one) into raw mode, give its size to the container's
 * and follow SIGWINCH; copy standard input to `master` and `master` to standard output until `stop_fd` (a
 * pidfd, or a descriptor of the caller's that becomes readable or hangs up) reports and what the container
 * had written is copied. The end of standard input is passed on as the end-of-file character when the
 * container's terminal is in canonical mode. Terminal and signal mask are as before on return. Takes no
 * ownership. 0 or negative errno. */
int terminal_relay(int master, int stop_fd, struct error *err);

/* The copying alone, which changes no terminal of the caller's. */
struct terminal_relay_ends {
    int input, output;
    int master; /* non-blocking */
    int stop;
    int signals; /* a signalfd(2) of SIGWINCH; -1: none */
};
int terminal_relay_between(const struct terminal_relay_ends *ends, struct error *err);

#endif
