/* See output.h. */
#include "cli/output.h"

#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "base/json_out.h"

const struct option_choice output_formats[] = {{"table", OUTPUT_TABLE}, {"json", OUTPUT_JSON}, {NULL, 0}};

static int output_failed(int code, struct error *err)
{
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
