/* The pid file that engines ask for. */
#include "container/pid_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"

int pid_file_write(const char *path, pid_t pid, struct error *err)
{
    struct arena a = {0};
    char text[16];
    int n = snprintf(text, sizeof(text), "%d", (int)pid);
    const char *slash = strrchr(path, '/');
    const char *dir = slash == NULL   ? "."
                      : slash == path ? "/"
                                      : arena_strndup(&a, path, (size_t)(slash - path));
    cleanup_fd int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int ret =
        fd < 0 ? -errno : io_replace_file_at(fd, slash == NULL ? path : slash + 1, text, (size_t)n, 0644);
    arena_free(&a);
    return ret < 0 ? error_set(err, ret, "write pid file '%s'", path) : 0;
}
