/* See output.h. */
#include "cli/output.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json_out.h"

const struct option_choice output_formats[] = {{"table", OUTPUT_TABLE}, {"json", OUTPUT_JSON}, {NULL, 0}};

/* Return whether standard output is a pipe without a reader. After an earlier failure errno does not tell. */
static bool has_no_reader(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0;
}

/* A reader such as head(1) has seen enough: end as other programs do. main() ignores SIGPIPE because of the
 * messages, and a command that prints has nothing left to undo. */
static int output_failed(int code, struct error *err)
{
    if (has_no_reader()) {
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    return error_set(err, code, "write to standard output");
}

int output_json(struct json_out *out, struct error *err)
{
    int ret = json_out_print(out);
    return ret < 0 ? output_failed(ret, err) : 0;
}

int output_finish(struct error *err)
{
    errno = EIO; /* after an earlier failure, only the stream's error flag is left */
    if (fflush(stdout) != 0 || ferror(stdout) != 0)
        return output_failed(-errno, err);
    return 0;
}
