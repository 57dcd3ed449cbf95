/* See status_file.h. */
#include "container/status_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/io.h"
#include "base/str.h"

int status_file_open(const char *path, struct error *err)
{
    if (path == NULL)
        return -1;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC, 0644);
    return fd < 0 ? error_set(err, -errno, "open status file '%s'", path) : fd;
}

static void write_note(int fd, const char *word, const char *name, const char *said)
{
    char escaped[STR_ESCAPED_MAX(ERROR_TEXT_MAX)], line[sizeof(escaped) + 64];
    if (fd < 0)
        return;
    str_escape_hidden(escaped, sizeof(escaped), said);
    int n = snprintf(line, sizeof(line), "%s %s %s\n", word, name, escaped);
    (void)io_write_full(fd, line, (size_t)n);
}

void status_file_cold(int fd, enum error_kind kind, const char *reason)
{
    write_note(fd, "cold", error_kind_name(kind, 0), reason);
}

void status_file_error(int fd, const struct error *err)
{
    write_note(fd, "error", error_kind_name(err->kind, err->code), error_detail(err));
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
