/* Send rtnetlink requests. */
#include "sandbox/net/netlink.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

/* The buffer for the messages of a dump. The kernel fits them to the size that is asked for, up to 32 KiB. */
#define ANSWER_SIZE 32768

void netlink_begin(struct netlink_request *request, int type, int flags, const void *header, size_t size)
{
    memset(request, 0, sizeof(*request));
    request->header = (struct nlmsghdr){
        .nlmsg_len = (uint32_t)NLMSG_LENGTH(size),
        .nlmsg_type = (uint16_t)type,
        .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
    };
    memcpy(NLMSG_DATA(&request->header), header, size);
}

void netlink_add(struct netlink_request *request, int type, const void *data, size_t size)
{
    size_t offset = NLMSG_ALIGN(request->header.nlmsg_len);
    if (offset + RTA_SPACE(size) > sizeof(request->bytes))
        __builtin_trap();
    struct rtattr attribute = {.rta_len = (unsigned short)RTA_LENGTH(size), .rta_type = (unsigned short)type};
    memcpy(request->bytes + offset, &attribute, sizeof(attribute));
    memcpy(request->bytes + offset + RTA_LENGTH(0), data, size);
    request->header.nlmsg_len = (uint32_t)(offset + RTA_LENGTH(size));
}

int netlink_open(void)
{
    cleanup_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return -errno;
    /* Restrict a dump of addresses to the device in the request (Linux 4.20). Older kernels send all of them.
     */
    (void)setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &(int){1}, sizeof(int));
    return fd_steal(&fd);
}

/* Return 1 if the answer is complete, 0 if more follows, or a negative errno. */
static int take_message(const struct nlmsghdr *message, netlink_handler *handler, void *arg)
{
    switch (message->nlmsg_type) {
    case NLMSG_ERROR: {
        const struct nlmsgerr *result = NLMSG_DATA(message);
        if (message->nlmsg_len < NLMSG_LENGTH(sizeof(*result)))
            return -EPROTO;
        return result->error < 0 ? result->error : 1;
    }
    case NLMSG_DONE: {
        int result = 0;
        if (message->nlmsg_len >= NLMSG_LENGTH(sizeof(result)))
            memcpy(&result, NLMSG_DATA(message), sizeof(result));
        return result < 0 ? result : 1;
    }
    case NLMSG_NOOP:
        return 0;
    default:
        return handler != NULL ? handler(message, arg) : 0;
    }
}

int netlink_call(int fd, struct netlink_request *request, netlink_handler *handler, void *arg)
{
    static uint32_t sequence;
    request->header.nlmsg_seq = ++sequence;
    if ((request->header.nlmsg_flags & NLM_F_DUMP) != NLM_F_DUMP)
        request->header.nlmsg_flags |= NLM_F_ACK;
    const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    if (RETRY(sendto(fd, request->bytes, request->header.nlmsg_len, 0, (const struct sockaddr *)&kernel,
                     sizeof(kernel))) < 0)
        return -errno;
    _Alignas(struct nlmsghdr) static char answer[ANSWER_SIZE];
    for (;;) {
        ssize_t n = RETRY(recv(fd, answer, sizeof(answer), 0));
        if (n < 0)
            return -errno;
        size_t left = (size_t)n;
        for (const struct nlmsghdr *m = (const struct nlmsghdr *)(const void *)answer; NLMSG_OK(m, left);
             m = NLMSG_NEXT(m, left)) {
            if (m->nlmsg_seq != sequence)
                continue;
            int ret = take_message(m, handler, arg);
            if (ret != 0)
                return ret < 0 ? ret : 0;
        }
    }
}

const void *netlink_attribute(const struct nlmsghdr *message, size_t header_size, int type, size_t *size)
{
    if (message->nlmsg_len < NLMSG_LENGTH(header_size))
        return NULL;
    size_t left = message->nlmsg_len - NLMSG_LENGTH(header_size);
    const char *p = (const char *)message + NLMSG_LENGTH(NLMSG_ALIGN(header_size));
    for (const struct rtattr *at = (const struct rtattr *)(const void *)p; RTA_OK(at, left);
         at = RTA_NEXT(at, left)) {
        if (at->rta_type != type)
            continue;
        *size = RTA_PAYLOAD(at);
        return RTA_DATA(at);
    }
    return NULL;
}
