/* The parser of /etc/passwd. getpwuid(3) would load name service modules of the container into the
 * runtime. */
#include "container/child/passwd.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/proc.h"
#include "base/str.h"

/* Larger files are read only up to this size. The entry for the user of a container is at the top. */
#define PASSWD_MAX ((size_t)64 * 1024)

/* Return the home directory in a line "name:password:uid:gid:gecos:home:shell" if it is that of uid, or
 * NULL. */
static const char *home_of_line(char *line, uid_t uid)
{
    char *field[6];
    for (size_t i = 0; i < 6; i++) {
        field[i] = line;
        line = strchr(line, ':');
        if (line == NULL)
            return NULL;
        *line++ = '\0';
    }
    uint32_t id;
    return str_to_id(field[2], &id) == 0 && id == uid && field[5][0] == '/' ? field[5] : NULL;
}

const char *home_in_passwd(char *text, uid_t uid, size_t max)
{
    for (char *line = text, *next; line != NULL && *line != '\0'; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        const char *home = home_of_line(line, uid);
        if (home != NULL && strlen(home) <= max)
            return home;
    }
    return NULL;
}

int home_variable_of(int fd, uid_t uid, char *out, size_t size)
{
    static char text[PASSWD_MAX];
    snprintf(out, size, "HOME=/");
    ssize_t n = fd < 0 ? 0 : io_read_full(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return (int)n;
    text[n] = '\0';
    const char *home = home_in_passwd(text, uid, size - sizeof("HOME="));
    if (home != NULL)
        snprintf(out, size, "HOME=%s", home);
    return 0;
}

/* Whether a container may have no file to read, or one that is hidden from this process. */
static bool is_usual(int ret)
{
    return ret == -ENOENT || ret == -ENOTDIR || ret == -ELOOP || ret == -EACCES || ret == -EINVAL;
}

int home_variable(uid_t uid, char *out, size_t size, struct error *err)
{
    cleanup_fd int fd = proc_open_regular("/etc/passwd");
    int ret = fd < 0 && !is_usual(fd) ? fd : home_variable_of(fd, uid, out, size);
    return ret < 0 ? error_set(err, ret, "read '/etc/passwd' for the variable HOME") : 0;
}
