/* See input.h. */
#include "cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/libraries.h"

/* The same limit as for config.json. */
#define INPUT_SIZE_MAX ((size_t)16 * 1024 * 1024)

int input_read(struct arena *a, const char *what, const char *path, char **text, size_t *size,
               struct error *err)
{
    const bool is_stdin = strcmp(path, "-") == 0;
    struct stat st;
    int ret = 0;
    /* Standard input, /dev/stdin and a pipe of the shell can be read only once. */
    if (is_stdin || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
        ret = libraries_require(err);
    if (ret < 0)
        return ret;
    cleanup_fd int file = is_stdin ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (!is_stdin && file < 0)
        return error_set(err, -errno, "read the %s from '%s'", what, path);
    ret = io_read_fd(a, is_stdin ? STDIN_FILENO : file, INPUT_SIZE_MAX, text, size);
    return ret < 0 ? error_set(err, ret, "read the %s from '%s'", what, path) : 0;
}
