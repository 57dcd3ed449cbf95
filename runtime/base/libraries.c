/* Replace the static program by the dynamic one: readlink(2) of /proc/self/exe, execve(2). All descriptors of
 * the static one are close-on-exec. */
#include "base/libraries.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/io.h"

#ifdef STATIC_PROGRAM

/* More than execve(2) accepts with a stack of the usual size. */
#define COMMAND_LINE_MAX ((size_t)8 * 1024 * 1024)

static bool settled;

void libraries_settle(void)
{
    settled = true;
}

/* Return the original command line, because main's options have been reordered. NULL without /proc. */
static char **read_arguments(struct arena *a)
{
    char *text = NULL;
    size_t size = 0, count = 0;
    if (io_read_file_at(a, AT_FDCWD, "/proc/self/cmdline", COMMAND_LINE_MAX, &text, &size) < 0)
        return NULL;
    for (size_t i = 0; i < size; i++)
        count += text[i] == '\0';
    char **arguments = ARENA_ARRAY(a, count + 1, char *);
    for (size_t i = 0; i < count; text += strlen(text) + 1)
        arguments[i++] = text;
    return arguments;
}

static int become_dynamic(struct arena *a, struct error *err)
{
    static const char *const places[] = {LIBRARIES_PROGRAM, "../libexec/" LIBRARIES_PROGRAM};
    char own[PATH_MAX], path[2 * PATH_MAX];
    char **arguments = read_arguments(a);
    if (arguments == NULL)
        return error_text(err, -ENOTSUP,
                          "a shared library is needed, and '/proc/self/cmdline' cannot be read");
    ssize_t n = readlink("/proc/self/exe", own, sizeof(own));
    if (n <= 0 || n == sizeof(own))
        return error_set(err, n < 0 ? -errno : -ENAMETOOLONG, "read '/proc/self/exe'");
    while (n > 0 && own[n - 1] != '/')
        n--;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(path, sizeof(path), "%.*s%s", (int)n, own, places[i]);
        execve(path, arguments, environ);
        if (errno != ENOENT && errno != ENOTDIR)
            return error_set(err, -errno, "execute '%s'", path);
    }
    return error_text(err, -ENOTSUP,
                      "a shared library is needed, but the program '%s', which loads it, is neither in "
                      "'%.*s' nor in '../libexec' relative to it: 'make install' installs it",
                      LIBRARIES_PROGRAM, (int)n, own);
}

int libraries_require(struct error *err)
{
    if (settled)
        return error_text(err, -ENOTSUP, "a shared library is needed after the command has begun");
    cleanup_arena struct arena a = {0};
    return become_dynamic(&a, err);
}

#else

void libraries_settle(void)
{
}

int libraries_require(struct error *err)
{
    (void)err;
    return 0;
}

#endif
