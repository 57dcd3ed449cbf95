/* Messages between the runtime and a process of the container while it is made: a pair of sequenced-packet
 * sockets (unix(7)), one message in a packet. When one side ends, the other reads the end of file. So a
 * process learns that the runtime was killed, and the runtime that the program is executed. */
#ifndef PYSBX_CONTAINER_SYNC_H
#define PYSBX_CONTAINER_SYNC_H

#include <sys/types.h>

struct error;

enum sync_message {
    SYNC_END = 0, /* end of file: the other side has ended or has executed its program */
    /* Of the runtime. */
    SYNC_MAPPED,    /* the user namespace has its maps, and the network devices have moved */
    SYNC_NETWORK,   /* the network namespace is made */
    SYNC_SCOPE,     /* the process is in its scope of systemd */
    SYNC_HOOKS_RAN, /* the hooks of the runtime's namespaces have ended */
    SYNC_FIT,       /* the files that the runtime has compared with the snapshot fit */
    SYNC_DIFFER,    /* one of these files differs; the reason follows in the same packet */
    SYNC_COMMIT,    /* the container is on record: wait for start, also if the runtime ends */
    SYNC_START,     /* go on to the program (sent by start and run) */
    SYNC_PROCEED,   /* exec: go on, the runtime has settled what it had to */
    /* Of the process. */
    SYNC_DEVICES,  /* the devices are made: the device filter may come into force */
    SYNC_HOOKS,    /* everything is mounted: run the hooks of the runtime's namespaces */
    SYNC_LISTENER, /* the next step loads a filter, whose listener the runtime receives */
    SYNC_READY,    /* nothing is left but start */
    SYNC_COLD,     /* the program is executed, not restored; the reason follows in the same packet */
    SYNC_ERROR,    /* failure; the error follows in the same packet */
    SYNC_CLONED,   /* sent by the late-cloned process that will execute the program */
    SYNC_LAST = SYNC_CLONED,
};

/* Two connected sockets. 0 or negative errno. */
int sync_pair(int sockets[2], struct error *err);

/* Send a message without a reason. 0 or negative errno; -EPIPE when the other side is gone. */
int sync_send(int fd, enum sync_message message);

/* Send a message with an error: SYNC_ERROR, SYNC_COLD or SYNC_DIFFER. A failure is not reported. */
void sync_send_reason(int fd, enum sync_message message, const struct error *err);

static inline void sync_send_error(int fd, const struct error *err)
{
    sync_send_reason(fd, SYNC_ERROR, err);
}

/* Receive the next message. For SYNC_ERROR, SYNC_COLD and SYNC_DIFFER *err is what the other side sent.
 * Return the message, or a negative errno when receiving fails. */
int sync_receive(int fd, struct error *err);

/* Let the kernel name the sender of every message from now on (SO_PASSCRED, unix(7)). */
int sync_ask_for_senders(int fd, struct error *err);

/* As sync_receive. *sender is the pid of the sender in the pid namespace of the runtime, or 0. */
int sync_receive_from(int fd, pid_t *sender, struct error *err);

/* The error for a message of a process that should have been ready: what it sent as an error, or that it
 * ended, or that the message was not expected. Return its code. */
int sync_unexpected(int message, struct error *err);

/* Receive exactly `wanted`: -ECONNRESET at the end of file, the code of a sent error, -EPROTO for another
 * message. */
int sync_expect(int fd, enum sync_message wanted, struct error *err);

#endif
