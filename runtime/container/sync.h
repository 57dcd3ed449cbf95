/* Messages between the runtime and a process of the container that is being created. The channel is a pair of
 * sequenced-packet sockets (unix(7)), with one message per packet. When one side ends, the other reads the
 * end of file. So a process learns that the runtime was killed, and the runtime learns that the program is
 * executed. */
#pragma once

#include <sys/ioctl.h>
#include <sys/types.h>

#include "base/error.h"

enum sync_message {
    SYNC_END = 0, /* end of file: the other side has ended or has executed its program */

    /* Sent by the runtime. */

    /* The user namespace has its ID maps, and the network devices have moved. */
    SYNC_MAPPED,
    SYNC_NETWORK,   /* the network namespace is made */
    SYNC_SCOPE,     /* the process is in its scope of systemd */
    SYNC_HOOKS_RAN, /* the hooks of the runtime's namespaces have ended */
    SYNC_FIT,       /* the files that the runtime has compared with the snapshot fit */
    SYNC_DIFFER,    /* one of these files differs; the reason follows in the same packet */
    /* The container is on record: wait for start, also if the runtime ends. */
    SYNC_COMMIT,
    SYNC_START,   /* go on to the program (sent by start and run; in place of COMMIT if record.executes) */
    SYNC_PROCEED, /* exec: go on, the runtime has applied its settings */

    /* Sent by the process. */

    /* The devices are made: the BPF device filter may come into force. */
    SYNC_DEVICES,
    /* Everything is mounted: run the hooks of the runtime's namespaces. */
    SYNC_HOOKS,
    /* The next step loads a filter with a listener, which the runtime receives. */
    SYNC_LISTENER,
    SYNC_READY, /* only start is left (not sent if record.executes) */
    /* The program is executed, not restored. The reason follows in the same packet. */
    SYNC_COLD,
    SYNC_ERROR,  /* failure; the error follows in the same packet */
    SYNC_CLONED, /* sent by the late-cloned process that will execute the program */
    SYNC_ROOT,   /* run --compare-fd: a descriptor of the container's root is passed with it */
    SYNC_LAST = SYNC_ROOT,
};

/* Make two connected sockets, which the caller closes. Return 0 or a negative errno. */
int sync_pair(int sockets[2], struct error *err);

/* Send a message without a reason. Return 0 or a negative errno; -EPIPE if the other side is gone. */
int sync_send(int fd, enum sync_message message);

/* Send SYNC_START with the size of the caller's terminal; 0 rows and columns: not known. Return as sync_send
 * does. */
int sync_send_start(int fd, const struct winsize *size);

/* Send SYNC_ROOT. Return as sync_send does. */
int sync_send_root(int fd, int root);

/* Send a message with an error: SYNC_ERROR, SYNC_COLD or SYNC_DIFFER. A failure is not reported. */
void sync_send_reason(int fd, enum sync_message message, const struct error *err);

/* Return the first word of a message with an error of this kind. */
int sync_word(enum sync_message message, enum error_kind kind);

static inline void sync_send_error(int fd, const struct error *err)
{
    sync_send_reason(fd, SYNC_ERROR, err);
}

/* Receive the next message. For SYNC_ERROR, SYNC_COLD and SYNC_DIFFER, *err is the error that the other side
 * sent. Return the message, or a negative errno if receiving fails. */
int sync_receive(int fd, struct error *err);

/* Let the kernel name the sender of every message from now on (SO_PASSCRED, unix(7)). Return 0 or a negative
 * errno. */
int sync_ask_for_senders(int fd, struct error *err);

/* Receive as sync_receive does. *sender is the pid of the sender in the pid namespace of the runtime, or
 * 0. */
int sync_receive_from(int fd, pid_t *sender, struct error *err);

/* Receive exactly SYNC_START, as sync_expect does. *size becomes the size that came with it, or of 0 rows and
 * columns: an older runtime sends none. */
int sync_expect_start(int fd, struct winsize *size, struct error *err);

/* Receive as sync_receive does. With SYNC_ROOT, *root becomes the descriptor, which the caller closes. */
int sync_receive_root(int fd, int *root, struct error *err);

/* Set the error for a message of a process that should have been ready: the error that it sent, or that it
 * ended, or that the message was not expected. Return the error's code. */
int sync_unexpected(int message, struct error *err);

/* Receive exactly the message `wanted`. Return 0, -ECONNRESET at the end of file, the code of an error that
 * was sent, or -EPROTO for another message. */
int sync_expect(int fd, enum sync_message wanted, struct error *err);
