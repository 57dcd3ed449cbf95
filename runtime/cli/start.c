/* start */
#include "cli/commands.h"
#include "container/lifecycle.h"

static int start_run(struct invocation *invocation, void *values, struct error *err)
{
    (void)values;
    return container_start(invocation->runtime, invocation->args[0], err);
}

const struct command command_start = {
    .name = "start",
    .arguments = "ID",
    .summary = "start the program of a created container",
    .options = command_no_options,
    .min_args = 1,
    .max_args = 1,
    .run = start_run,
};
