/* What the runtime and the container's process say to each other while the container is made: a pair of
 * sequenced-packet sockets (unix(7)). The end of one side is the end of the file for the other, which is how
 * a process learns that the runtime was killed, and the runtime that the program has been executed. */
#ifndef PYSBX_CONTAINER_SYNC_H
#define PYSBX_CONTAINER_SYNC_H

#include <sys/types.h>

struct error;

enum sync_message {
    SYNC_END = 0,  /* end of file: the other side is gone or has executed its program */
    SYNC_GO,       /* runtime: what you waited for is done */
    SYNC_DEVICES,  /* process: the devices are made, rules about them may come into force */
    SYNC_HOOKS,    /* process: everything is mounted, run the hooks of the runtime's namespace */
    SYNC_LISTENER, /* process: about to load a filter whose listener the runtime takes */
    SYNC_READY,    /* process: nothing is left but start */
    SYNC_COMMIT,   /* runtime: the container is on record: wait for start, whatever becomes of me */
    SYNC_START,    /* start: go on to the program */
    SYNC_COLD,     /* process: the snapshot cannot be used; the reason follows in the same packet */
    SYNC_ERROR,    /* process: failed; the error follows in the same packet */
    SYNC_BORN,     /* process: it is I who executes the program, in the place of who sent the last message */
};

/* Two connected sockets. 0 or negative errno. */
int sync_pair(int sockets[2], struct error *err);

/* Send a message without a reason. 0 or negative errno; -EPIPE when the other side is gone. */
int sync_send(int fd, enum sync_message message);

/* Send a message with an error: SYNC_ERROR or SYNC_COLD; nothing is reported if that fails. */
void sync_send_reason(int fd, enum sync_message message, const struct error *err);

static inline void sync_send_error(int fd, const struct error *err)
{
    sync_send_reason(fd, SYNC_ERROR, err);
}

/* Receive the next message; for SYNC_ERROR and SYNC_COLD *err is what the other side sent. Negative errno
 * when receiving fails. */
int sync_receive(int fd, struct error *err);

/* For the runtime: let the kernel say from now on who sent a message (SO_PASSCRED, unix(7)). */
int sync_ask_for_senders(int fd, struct error *err);

/* As sync_receive; *sender: the pid of who sent the message, as the runtime sees it, or 0. */
int sync_receive_from(int fd, pid_t *sender, struct error *err);

/* Receive exactly `wanted`: -ECONNRESET at the end of file, the code of a sent error, -EPROTO for another
 * message. */
int sync_expect(int fd, enum sync_message wanted, struct error *err);

#endif
