/* pause and resume */
#include "cli/commands.h"
#include "container/lifecycle.h"

static int run_pause(struct invocation *invocation, void *values, struct error *err)
{
    (void)values;
    return container_pause(invocation->runtime, invocation->args[0], err);
}

static int run_resume(struct invocation *invocation, void *values, struct error *err)
{
    (void)values;
    return container_resume(invocation->runtime, invocation->args[0], err);
}

const struct command command_pause = {
    .name = "pause",
    .arguments = "ID",
    .summary = "freeze all processes of a container",
    .options = command_no_options,
    .min_args = 1,
    .max_args = 1,
    .run = run_pause,
};

const struct command command_resume = {
    .name = "resume",
    .arguments = "ID",
    .summary = "thaw the processes of a container",
    .options = command_no_options,
    .min_args = 1,
    .max_args = 1,
    .run = run_resume,
};
