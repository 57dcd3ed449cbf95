/* Messages between the runtime and the container's process. */
#include "container/sync.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/socket.h"

/* `message` is a sync_word, with the detail of the error above it. */
#define MESSAGE_BITS 8
#define KIND_BITS    8
#define COLUMNS_BITS 16

struct packet {
    int message;
    int code; /* of the error; with SYNC_START: the columns of a terminal, and its rows above them */
    char text[ERROR_TEXT_MAX];
};

int sync_pair(int sockets[2], struct error *err)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return error_set(err, -errno, "make a socket pair");
    return 0;
}

static int send_words(int fd, const int *words, size_t size)
{
    if (RETRY(send(fd, words, size, MSG_NOSIGNAL)) >= 0)
        return 0;
    /* If a process died with a message of the runtime unread, the connection is reset. */
    return errno == ECONNRESET ? -EPIPE : -errno;
}

int sync_send(int fd, enum sync_message message)
{
    const int word = message;
    return send_words(fd, &word, sizeof(word));
}

int sync_send_start(int fd, const struct winsize *size)
{
    const int words[] = {SYNC_START, (int)((unsigned)size->ws_row << COLUMNS_BITS | size->ws_col)};
    return send_words(fd, words, sizeof(words));
}

int sync_send_root(int fd, int root)
{
    const int word = SYNC_ROOT;
    return socket_send_descriptor(fd, (const char *)&word, sizeof(word), root);
}

int sync_word(enum sync_message message, enum error_kind kind)
{
    return (int)((unsigned)message | (unsigned)kind << MESSAGE_BITS);
}

void sync_send_reason(int fd, enum sync_message message, const struct error *err)
{
    unsigned detail = err->detail < sizeof(err->text) ? err->detail : 0;
    struct packet p = {
        .message = (int)((unsigned)sync_word(message, err->kind) | detail << (MESSAGE_BITS + KIND_BITS)),
        .code = err->code};
    memcpy(p.text, err->text, sizeof(p.text));
    p.text[sizeof(p.text) - 1] = '\0';
    size_t size = offsetof(struct packet, text) + strlen(p.text) + 1;
    /* The container's filter may be in force and not allow calls on sockets. Every filter allows write(2). */
    if (RETRY(send(fd, &p, size, MSG_NOSIGNAL)) < 0 && errno != EPIPE)
        (void)RETRY(write(fd, &p, size));
}

int sync_ask_for_senders(int fd, struct error *err)
{
    int on = 1;
    return setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0
               ? error_set(err, -errno, "ask for the senders of messages")
               : 0;
}

/* The sender of a message, or the descriptor or number that came with it. */
struct beside {
    int code;
    int type; /* SCM_CREDENTIALS or SCM_RIGHTS; 0: nothing is wanted, and the kernel drops what is sent */
    struct ucred sender;
    int descriptor;
};

static ssize_t sync_receive_any(int fd, struct packet *p, struct beside *beside)
{
    union {
        char space[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr aligned;
    } control;
    /* CMSG_SPACE has room for a second descriptor, which the kernel would open too. */
    const size_t size = beside->type == SCM_RIGHTS ? CMSG_LEN(sizeof(int)) : CMSG_SPACE(sizeof(struct ucred));
    struct iovec data = {p, sizeof(*p)};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = (socklen_t)size};
    if (beside->type == 0)
        return RETRY(recv(fd, p, sizeof(*p), 0));
    ssize_t n = RETRY(recvmsg(fd, &message, MSG_CMSG_CLOEXEC));
    const struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (head == NULL || head->cmsg_level != SOL_SOCKET || head->cmsg_type != beside->type)
        return n;
    if (beside->type == SCM_RIGHTS)
        memcpy(&beside->descriptor, CMSG_DATA(head), sizeof(int));
    else
        memcpy(&beside->sender, CMSG_DATA(head), sizeof(beside->sender));
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
        errno = EPROTO;
        return -1;
    }
    return n;
}

static bool has_reason(int message)
{
    return message == SYNC_ERROR || message == SYNC_COLD || message == SYNC_DIFFER;
}

static int sync_receive_beside(int fd, struct beside *beside, struct error *err)
{
    struct packet p = {0};
    ssize_t n = sync_receive_any(fd, &p, beside);
    /* If a process died with a message of the runtime unread, the connection is reset. The kernel reports
     * that once, before it returns the last message of that process. */
    if (n < 0 && errno == ECONNRESET)
        n = sync_receive_any(fd, &p, beside);
    if (n == 0 || (n < 0 && errno == ECONNRESET))
        return SYNC_END;
    if (n < 0)
        return error_set(err, -errno, "receive from the container's process");
    unsigned sent = (unsigned)p.message;
    int message = (int)(sent & ((1U << MESSAGE_BITS) - 1));
    if (n < (ssize_t)sizeof(int) || message <= SYNC_END || message > SYNC_LAST)
        return error_set(err, -EPROTO, "receive from the container's process");
    beside->code = p.code;
    if (has_reason(message) && err != NULL) {
        p.text[sizeof(p.text) - 1] = '\0';
        memcpy(err->text, p.text, sizeof(err->text));
        err->code = p.code < 0 ? p.code : -EIO;
        unsigned kind = sent >> MESSAGE_BITS & ((1U << KIND_BITS) - 1);
        err->kind = kind < ERROR_KIND_COUNT ? (enum error_kind)kind : ERROR_OTHER;
        err->detail = sent >> (MESSAGE_BITS + KIND_BITS);
    }
    return message;
}

int sync_receive(int fd, struct error *err)
{
    struct beside nothing = {0};
    return sync_receive_beside(fd, &nothing, err);
}

int sync_receive_from(int fd, pid_t *sender, struct error *err)
{
    struct beside beside = {.type = SCM_CREDENTIALS};
    int message = sync_receive_beside(fd, &beside, err);
    *sender = beside.sender.pid;
    return message;
}

int sync_receive_root(int fd, int *root, struct error *err)
{
    struct beside beside = {.type = SCM_RIGHTS, .descriptor = -1};
    int message = sync_receive_beside(fd, &beside, err);
    if (message == SYNC_ROOT) {
        fd_close(root);
        *root = fd_steal(&beside.descriptor);
    }
    fd_close(&beside.descriptor);
    return message;
}

int sync_unexpected(int message, struct error *err)
{
    if (message == SYNC_ERROR || message < 0)
        return err->code;
    return message == SYNC_END ? error_text(err, -ECONNRESET, "the process ended before it was ready")
                               : error_text(err, -EPROTO, "unexpected message %d", message);
}

static int expect_beside(int fd, enum sync_message wanted, struct beside *beside, struct error *err)
{
    int got = sync_receive_beside(fd, beside, err);
    if (got < 0)
        return got;
    if (got == (int)wanted)
        return 0;
    if (got == SYNC_ERROR)
        return err != NULL ? err->code : -EIO;
    if (got == SYNC_END)
        return error_text(err, -ECONNRESET, "the other side ended unexpectedly");
    return error_text(err, -EPROTO, "unexpected message %d instead of %d", got, (int)wanted);
}

int sync_expect(int fd, enum sync_message wanted, struct error *err)
{
    struct beside nothing = {0};
    return expect_beside(fd, wanted, &nothing, err);
}

int sync_expect_start(int fd, struct winsize *size, struct error *err)
{
    struct beside beside = {0};
    int ret = expect_beside(fd, SYNC_START, &beside, err);
    const unsigned sent = ret == 0 ? (unsigned)beside.code : 0;
    *size =
        (struct winsize){.ws_row = (unsigned short)(sent >> COLUMNS_BITS), .ws_col = (unsigned short)sent};
    return ret;
}
