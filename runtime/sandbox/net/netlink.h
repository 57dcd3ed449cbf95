/* Requests to the kernel over rtnetlink(7): building a message, sending it, reading what comes back. */
#ifndef PYSBX_SANDBOX_NET_NETLINK_H
#define PYSBX_SANDBOX_NET_NETLINK_H

#include <linux/netlink.h>
#include <stddef.h>

/* One request. It begins with a header of the family's own (struct ifinfomsg, struct ifaddrmsg). */
struct netlink_request {
    union {
        struct nlmsghdr header;
        char bytes[512];
    };
};

/* Begin a request: type RTM_…, flags NLM_F_… (NLM_F_REQUEST is added) and the family's header. */
void netlink_begin(struct netlink_request *request, int type, int flags, const void *header, size_t size);

/* Append an attribute. Attributes here are names, numbers and addresses: they always fit. */
void netlink_add(struct netlink_request *request, int type, const void *data, size_t size);

/* A socket in the network namespace of the caller, close-on-exec, or negative errno. */
int netlink_open(void);

/* Called for every message of the answer; a negative result ends the reading and is returned. */
typedef int netlink_handler(const struct nlmsghdr *message, void *arg);

/* Send the request and read until it is acknowledged or, for a dump, complete. 0, what the handler returned,
 * or the kernel's negative errno. handler may be NULL. */
int netlink_call(int fd, struct netlink_request *request, netlink_handler *handler, void *arg);

/* The attribute of that type behind `header_size` bytes of the message's own header, or NULL; its length in
 * *size. */
const void *netlink_attribute(const struct nlmsghdr *message, size_t header_size, int type, size_t *size);

#endif
