/* confine: a program under Landlock, a filter and rlimits, without a container. */
#include <stddef.h>

#include "cli/commands.h"
#include "container/confine.h"

#define AT(field) offsetof(struct confine_options, field)

static const struct option options[] = {
    {"bundle", 'b', OPTION_STRING, AT(bundle), "DIR",
     "bundle of the program (default: the working directory)", NULL},
    {"config", 'f', OPTION_STRING, AT(config), "FILE",
     "configuration, relative to the bundle (default: config.json)", NULL},
    {"status-file", 0, OPTION_STRING, AT(status_file), "FILE", "write how the program has ended to this file",
     NULL},
    {0},
};

static int confine_command_run(struct invocation *invocation, void *values, struct error *err)
{
    return confine_run(invocation->runtime, values, &invocation->exit_code, err);
}

const struct command command_confine = {
    .name = "confine",
    .arguments = "",
    .summary = "run a program without a container, under Landlock, a filter and rlimits alone",
    .options = options,
    .values_size = sizeof(struct confine_options),
    .run = confine_command_run,
};
