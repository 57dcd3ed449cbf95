/* See status_file.h. */
#include "container/status_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/io.h"

int status_file_open(const char *path, struct error *err)
{
    if (path == NULL)
        return -1;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC, 0644);
    return fd < 0 ? error_set(err, -errno, "open status file '%s'", path) : fd;
}

int status_file_write(int fd, int status, const struct cgroup_ref *cgroup, struct error *err)
{
    char text[64];
    bool killed = WIFSIGNALED(status);
    int n = snprintf(text, sizeof(text), killed ? "killed %d" : "exited %d",
                     killed ? WTERMSIG(status) : WEXITSTATUS(status));
    uint64_t kills;
    if (cgroup_oom_kills(cgroup, &kills) == 0 && kills > 0)
        n += snprintf(text + n, sizeof(text) - (size_t)n, " oom-kills %" PRIu64, kills);
    text[n++] = '\n';
    int ret = io_write_full(fd, text, (size_t)n);
    return ret < 0 ? error_set(err, ret, "write status file") : 0;
}
