/* See input.h. */
#include "cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "base/libraries.h"

/* The same limit as for config.json. */
#define INPUT_SIZE_MAX ((size_t)16 * 1024 * 1024)

int input_read(struct arena *a, const char *what, const char *path, char **text, size_t *size,
               struct error *err)
{
    /* Standard input can be read only once. */
    bool is_stdin = strcmp(path, "-") == 0;
    int ret = is_stdin ? libraries_require(err) : 0;
    if (ret < 0)
        return ret;
    ret = is_stdin ? io_read_fd(a, STDIN_FILENO, INPUT_SIZE_MAX, text, size)
                   : io_read_file_at(a, AT_FDCWD, path, INPUT_SIZE_MAX, text, size);
    if (ret == -EINVAL)
        return error_text(err, ret, "read the %s from '%s': not a regular file", what, path);
    return ret < 0 ? error_set(err, ret, "read the %s from '%s'", what, path) : 0;
}
