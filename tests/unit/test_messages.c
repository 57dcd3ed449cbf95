/* Descriptors that come with a message: of sandbox/terminal.h and container/sync.h. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "container/sync.h"
#include "sandbox/terminal.h"
#include "unit.h"

static struct error error;

/* Send a message with two descriptors, and return the first number that is free then. */
static int send_two(int socket, const void *text, size_t size)
{
    char control[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec data = {(void *)(uintptr_t)text, size};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(2 * sizeof(int)), .cmsg_level = SOL_SOCKET};
    header->cmsg_type = SCM_RIGHTS;
    memcpy(CMSG_DATA(header), (int[2]){0, 1}, 2 * sizeof(int));
    if (sendmsg(socket, &message, 0) < 0)
        bail_out("sendmsg: %s", strerror(errno));
    int next = dup(0);
    close(next);
    return next;
}

static void test_two_descriptors(void)
{
    const int word = SYNC_ROOT;
    int ends[2], root = -1, next;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        bail_out("socketpair: %s", strerror(errno));
    next = send_two(ends[0], "terminal", 8);
    is_int(terminal_receive_master(ends[1], &error), -EPROTO, "two descriptors are not one terminal");
    ok(fcntl(next, F_GETFD) < 0 && fcntl(next + 1, F_GETFD) < 0, "… and both are closed");
    next = send_two(ends[0], &word, sizeof(word));
    is_int(sync_receive_root(ends[1], &root, &error), -EPROTO, "nor one root");
    ok(root < 0 && fcntl(next, F_GETFD) < 0 && fcntl(next + 1, F_GETFD) < 0, "… and both are closed");
    is_int(sync_send_root(ends[0], 0), 0, "one root is sent");
    ok(sync_receive_root(ends[1], &root, &error) == SYNC_ROOT && root == next, "… and received");
    close(root);
    close(ends[0]);
    close(ends[1]);
}

static void test_size_of_terminal(void)
{
    const struct winsize sent = {.ws_row = 65535, .ws_col = 40000};
    struct winsize size = {.ws_row = 1};
    int ends[2];
    if (sync_pair(ends, &error) < 0)
        bail_out("%s", error.text);
    is_int(sync_send_start(ends[0], &sent), 0, "start is sent with a size");
    is_int(sync_expect_start(ends[1], &size, &error), 0, "… and received");
    ok(size.ws_row == 65535 && size.ws_col == 40000, "… with its size");
    is_int(sync_send_start(ends[0], &sent), 0, "it is sent again");
    is_int(sync_expect(ends[1], SYNC_START, &error), 0, "a reader that knows no size takes it as start");
    is_int(sync_send(ends[0], SYNC_START), 0, "start is sent without a size, as by an older runtime");
    is_int(sync_expect_start(ends[1], &size, &error), 0, "… and received");
    ok(size.ws_row == 0 && size.ws_col == 0, "… with no size");
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    test_two_descriptors();
    test_size_of_terminal();
    return done_testing();
}
