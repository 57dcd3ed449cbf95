/* state: the state object of the specification. */
#include "base/fd.h"
#include "base/json_out.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "container/lookup.h"

static int state_run(struct invocation *invocation, void *values, struct error *err)
{
    (void)values;
    cleanup_fd int dirfd = -1;
    struct record record;
    int ret = container_open_record(invocation->arena, invocation->runtime, invocation->args[0], &dirfd,
                                    &record, err);
    if (ret < 0)
        return ret;
    enum status status = record_status(dirfd, &record);
    cleanup_json_out struct json_out *out = json_out_new(true);
    record_write_state(&record, status_name(status), status == STATUS_STOPPED ? 0 : record.pid, true, out);
    return output_json(out, err);
}

const struct command command_state = {
    .name = "state",
    .arguments = "ID",
    .summary = "show the state of a container as JSON",
    .options = command_no_options,
    .min_args = 1,
    .max_args = 1,
    .run = state_run,
};
