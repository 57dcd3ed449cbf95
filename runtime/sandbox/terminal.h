/* The container's pseudo-terminal. It is made from the container's own devpts. The runtime passes it to the
 * engine through the console socket (SCM_RIGHTS, unix(7)), or to its own relay. ioctl_tty(2), pts(4). */
#pragma once

#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/types.h>

struct error;
struct spec_process;

struct terminal_plan {
    bool wanted;                  /* process.terminal */
    int socket;                   /* the child sends the master here; -1 without a terminal */
    int relay_socket;             /* the parent receives it here if it relays itself; else -1 */
    unsigned short rows, columns; /* process.consoleSize; 0: not given */
};

#define TERMINAL_PLAN_NONE ((struct terminal_plan){.socket = -1, .relay_socket = -1})

/* Parent, before the clone: decide and connect. `console_socket`: path of the engine's AF_UNIX stream socket,
 * which may be longer than sun_path, or NULL. Without it, a terminal is only possible in the foreground.
 * foreground: the runtime stays and relays (see terminal_relay.h), and a socket pair takes the place of the
 * console socket. Return 0 or a negative errno. *out owns its descriptors until terminal_release. */
int terminal_plan(const struct spec_process *process, const char *console_socket, bool foreground,
                  struct terminal_plan *out, struct error *err);

/* Parent: return the size of the terminal that is standard input, or of 0 rows and columns. */
struct winsize terminal_callers_size(void);

/* Child, before the program: give its terminal, which is standard input, this size, unless it has one or the
 * size is unknown. An engine tells the size after `start` has returned: too late for a program that asks
 * first. A failure is ignored. */
void terminal_give_size(const struct winsize *size);

/* Close the plan's descriptors. It may be called twice. */
void terminal_release(struct terminal_plan *plan);

/* Child: open a pseudo-terminal of the devpts at /dev/pts below `rootfd` (the descriptor of "/" for exec),
 * set its size, and give the slave to `uid`. console: also bind it on /dev/console (for a container's init,
 * before rootfs_finish). The caller owns *master and *slave. A ptmx other than the device 5:2 on a devpts is
 * refused (CVE-2025-52565), and so is a /dev/console that is a symbolic link (CVE-2026-88264). Return 0 or a
 * negative errno. */
int terminal_setup(const struct terminal_plan *plan, int rootfd, uid_t uid, bool console, int *master,
                   int *slave, struct error *err);

/* Child: send the master in one message, with a name and one descriptor. The master stays open here. Return 0
 * or a negative errno. */
int terminal_send_master(int socket, int master, struct error *err);

/* Parent in the foreground: receive the master from plan->relay_socket. Return a descriptor that the caller
 * owns, or a negative errno: -ECONNRESET if the child ended before it sent one. */
int terminal_receive_master(int socket, struct error *err);

/* Child: duplicate the slave to descriptors 0, 1 and 2, and close it. Return 0 or a negative errno. */
int terminal_place(int slave, struct error *err);
/* Child, after setsid(2): make it the controlling terminal. Return 0 or a negative errno. */
int terminal_control(struct error *err);
/* Child: call terminal_place, then terminal_control. Return 0 or a negative errno. */
int terminal_attach(int slave, struct error *err);
