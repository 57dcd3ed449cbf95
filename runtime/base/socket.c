/* See socket.h. */
#include "base/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"

/* Fill in a socket address. A path that does not fit sun_path is named through a descriptor of its directory,
 * which *dir keeps open. */
static int socket_address(const char *path, struct sockaddr_un *address, int *dir)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t room = sizeof(address->sun_path);
    if (strlen(path) < room) {
        memcpy(address->sun_path, path, strlen(path));
        return 0;
    }
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (slash == NULL || (size_t)(slash - path) >= sizeof(parent))
        return -ENAMETOOLONG;
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = '\0';
    *dir = open(parent[0] != '\0' ? parent : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*dir < 0)
        return -errno;
    int n = snprintf(address->sun_path, room, "/proc/self/fd/%d/%s", *dir, slash + 1);
    return n < 0 || (size_t)n >= room ? -ENAMETOOLONG : 0;
}

int socket_connect(const char *path, const char *what, struct error *err)
{
    struct sockaddr_un address;
    cleanup_fd int dir = -1;
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_set(err, -errno, "socket");
    int ret = socket_address(path, &address, &dir);
    if (ret < 0)
        return error_set(err, ret, "connect to %s '%s'", what, path);
    if (RETRY(connect(fd, (struct sockaddr *)&address, sizeof(address))) < 0)
        return error_set(err, -errno, "connect to %s '%s'", what, path);
    return fd_steal(&fd);
}

int socket_send_descriptor(int socket, const char *name, size_t size, int fd)
{
    union socket_message control = {0};
    struct iovec data = {.iov_base = (char *)(uintptr_t)name, .iov_len = size};
    struct msghdr message = {
        .msg_iov = &data,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control.space),
    };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof(int));
    return RETRY(sendmsg(socket, &message, MSG_NOSIGNAL)) < 0 ? -errno : 0;
}
