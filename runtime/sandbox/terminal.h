/* The container's pseudo-terminal: made from the container's own devpts, handed to the engine through its
 * console socket (SCM_RIGHTS, unix(7)) or to the runtime's own relay. ioctl_tty(2), pts(4). */
#ifndef PYSBX_SANDBOX_TERMINAL_H
#define PYSBX_SANDBOX_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

struct error;
struct spec_process;

struct terminal_plan {
    bool wanted;                  /* process.terminal */
    int socket;                   /* the child sends the master here; -1 without a terminal */
    int relay_socket;             /* the parent receives it here when it relays itself; else -1 */
    unsigned short rows, columns; /* process.consoleSize; 0: not given */
};

#define TERMINAL_PLAN_NONE ((struct terminal_plan){.socket = -1, .relay_socket = -1})

/* Parent, before the clone: decide and connect. `console_socket` is the path of the engine's AF_UNIX stream
 * socket or NULL (it may be longer than sun_path); without one a terminal is only possible in the foreground
 * (`foreground`: the runtime stays and relays, see terminal_relay.h), when a socket pair takes its place.
 * 0 or negative errno; *out owns its descriptors until terminal_release. */
int terminal_plan(const struct spec_process *process, const char *console_socket, bool foreground,
                  struct terminal_plan *out, struct error *err);

/* Close the plan's descriptors; may be called twice. */
void terminal_release(struct terminal_plan *plan);

/* Child: open a pseudo-terminal of the devpts at /dev/pts below `rootfd` ("/" itself for exec), set its
 * size, give the slave to `uid`; with `console` bind it on /dev/console (a container's init, before
 * rootfs_finish). The caller owns *master and *slave. Refuses a ptmx that is not the device 5:2 on a devpts
 * (CVE-2025-52565) and a /dev/console that is a symbolic link (CVE-2026-88264). */
int terminal_setup(const struct terminal_plan *plan, int rootfd, uid_t uid, bool console, int *master,
                   int *slave, struct error *err);

/* Child: hand the master over in one message: a name and one descriptor. The master stays open here. */
int terminal_send_master(int socket, int master, struct error *err);

/* Parent in the foreground: receive the master from plan->relay_socket. Descriptor or negative errno;
 * -ECONNRESET when the child ended before it sent one. */
int terminal_receive_master(int socket, struct error *err);

/* Child: make the slave descriptors 0, 1 and 2; closes it. */
int terminal_place(int slave, struct error *err);
/* Child, after setsid(2): make it the controlling terminal. */
int terminal_control(struct error *err);
/* Both. */
int terminal_attach(int slave, struct error *err);

#endif
