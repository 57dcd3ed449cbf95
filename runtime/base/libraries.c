/* Becomes the dynamic program: readlink(2) of /proc/self/exe, execve(2). What the static one has open is
 * close-on-exec. */
#include "base/libraries.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

#ifdef STATIC_PROGRAM

static char **arguments;

void libraries_init(int argc, char **argv)
{
    size_t size = ((size_t)argc + 1) * sizeof(*argv);
    arguments = malloc(size);
    if (arguments != NULL)
        memcpy(arguments, argv, size);
}

void libraries_settle(void)
{
    arguments = NULL;
}

int libraries_require(struct error *err)
{
    static const char *const places[] = {LIBRARIES_PROGRAM, "../libexec/" LIBRARIES_PROGRAM};
    char own[PATH_MAX], path[2 * PATH_MAX];
    if (arguments == NULL)
        return error_text(err, -ENOTSUP, "a shared library is needed after the command has begun");
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
                      "a shared library is needed, and '%s', which can load it, is neither in '%.*s' nor in "
                      "'../libexec' from there: 'make install' puts it there",
                      LIBRARIES_PROGRAM, (int)n, own);
}

#else

void libraries_init(int argc, char **argv)
{
    (void)argc;
    (void)argv;
}

void libraries_settle(void)
{
}

int libraries_require(struct error *err)
{
    (void)err;
    return 0;
}

#endif
