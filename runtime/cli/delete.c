/* delete */
#include <stddef.h>

#include "cli/commands.h"
#include "container/lifecycle.h"

struct delete_values {
    bool force;
};

static const struct option options[] = {
    {"force", 'f', OPTION_FLAG, offsetof(struct delete_values, force), NULL,
     "kill a running container first; ignore a missing container", NULL},
    {0},
};

static int delete_run(struct invocation *invocation, void *values, struct error *err)
{
    const struct delete_values *delete = values;
    return container_delete(invocation->runtime, invocation->args[0], delete->force, err);
}

const struct command command_delete = {
    .name = "delete",
    .arguments = "ID",
    .summary = "delete a stopped container and its resources",
    .options = options,
    .values_size = sizeof(struct delete_values),
    .min_args = 1,
    .max_args = 1,
    .run = delete_run,
};
