/* See pid_file.h. */
#include "container/pid_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/socket.h"

int pid_file_write(const char *path, pid_t pid, struct error *err)
{
    char dir[PATH_MAX] = ".", text[16];
    int n = snprintf(text, sizeof(text), "%d", (int)pid);
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL || slash == path ? 1 : (size_t)(slash - path);
    if (length >= sizeof(dir))
        return error_set(err, -ENAMETOOLONG, "write pid file '%s'", path);
    if (slash != NULL)
        memcpy(dir, path, length);
    cleanup_fd int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int ret =
        fd < 0 ? -errno : io_replace_file_at(fd, slash == NULL ? path : slash + 1, text, (size_t)n, 0644);
    return ret < 0 ? error_set(err, ret, "write pid file '%s'", path) : 0;
}

int pid_file_connect(const char *path, struct error *err)
{
    return path != NULL ? socket_connect(path, "pidfd socket", err) : -1;
}

int pid_file_send(int socket, int pidfd, struct error *err)
{
    static const char name[] = "pidfd";
    int ret = socket_send_descriptor(socket, name, sizeof(name) - 1, pidfd);
    return ret < 0 ? error_set(err, ret, "send the process to the pidfd socket") : 0;
}
