/* AF_UNIX stream sockets of an engine: connect by path, and pass one descriptor (unix(7), SCM_RIGHTS). */
#pragma once

#include <stddef.h>
#include <sys/socket.h>

struct error;

/* Room for one descriptor, aligned as cmsg(3) wants it. */
union socket_message {
    char space[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

/* Connect to the stream socket at `path`, which may be longer than sun_path. `what` names it in an error:
 * "console socket". Return a descriptor that the caller owns, or a negative errno. */
int socket_connect(const char *path, const char *what, struct error *err);

/* Send a descriptor in one message, with `name` as its data: at least one byte. The descriptor stays open.
 * Return 0 or a negative errno without text. */
int socket_send_descriptor(int socket, const char *name, size_t size, int fd);
