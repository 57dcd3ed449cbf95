/* Requests to the kernel over rtnetlink(7): build a message, send it, read the answer. */
#pragma once

#include <linux/netlink.h>
#include <stddef.h>

/* One request. It begins with a header of the message family (struct ifinfomsg, struct ifaddrmsg). */
struct netlink_request {
    union {
        struct nlmsghdr header;
        char bytes[512];
    };
};

/* Begin a request: type RTM_…, flags NLM_F_… (NLM_F_REQUEST is added) and the family's header. */
void netlink_begin(struct netlink_request *request, int type, int flags, const void *header, size_t size);

/* Append an attribute. Names, numbers and addresses always fit. */
void netlink_add(struct netlink_request *request, int type, const void *data, size_t size);

/* Open a socket in the caller's network namespace, with close-on-exec. Return a descriptor that the caller
 * owns, or a negative errno. */
int netlink_open(void);

/* Called for every message of the answer. A negative result ends the reading and is returned. */
typedef int netlink_handler(const struct nlmsghdr *message, void *arg);

/* Send the request, and read until it is acknowledged or the dump is complete. handler may be NULL. Return 0,
 * the handler's negative result, or the kernel's negative errno. */
int netlink_call(int fd, struct netlink_request *request, netlink_handler *handler, void *arg);

/* Return the attribute of this type after the message's own header of `header_size` bytes, or NULL. *size:
 * its length. */
const void *netlink_attribute(const struct nlmsghdr *message, size_t header_size, int type, size_t *size);
