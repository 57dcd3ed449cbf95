/* kill */
#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/signal_name.h"
#include "container/lifecycle.h"

struct kill_values {
    bool all;
};

static const struct option options[] = {
    {"all", 'a', OPTION_FLAG, offsetof(struct kill_values, all), NULL,
     "signal every process of the container", NULL},
    {0},
};

static int kill_run(struct invocation *invocation, void *values, struct error *err)
{
    const struct kill_values *kill = values;
    int number = invocation->count > 1 ? signal_parse(invocation->args[1]) : SIGTERM;
    if (number < 0)
        return error_text(err, -EINVAL, "unknown signal '%s'", invocation->args[1]);
    return container_kill(invocation->runtime, invocation->args[0], number, kill->all, err);
}

const struct command command_kill = {
    .name = "kill",
    .arguments = "ID [SIGNAL]",
    .summary = "send a signal, by name or number (default: TERM), to a container",
    .options = options,
    .values_size = sizeof(struct kill_values),
    .min_args = 1,
    .max_args = 2,
    .run = kill_run,
};
