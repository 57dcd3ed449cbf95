/* plan: show the effects of create, without any of them. */
#include <stddef.h>

#include "base/json_out.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "prewarm/commands.h"

static const struct option options[] = {
    {"bundle", 'b', OPTION_STRING, offsetof(struct create_options, bundle), "DIR",
     "bundle of the container (default: the working directory)", NULL},
    {"config", 'f', OPTION_STRING, offsetof(struct create_options, config), "FILE",
     "configuration, relative to the bundle (default: config.json)", NULL},
    {"init", 0, OPTION_FLAG, offsetof(struct create_options, init), NULL, "as for create", NULL},
    {"no-pivot", 0, OPTION_FLAG, offsetof(struct create_options, no_pivot), NULL, "as for create", NULL},
    {0},
};

static int plan_run(struct invocation *invocation, void *values, struct error *err)
{
    struct create_options *create = values;
    create->id = invocation->count > 0 ? invocation->args[0] : "plan";
    if (create->bundle == NULL)
        create->bundle = ".";
    if (create->config == NULL)
        create->config = "config.json";
    cleanup_json_out struct json_out *out = json_out_new(true);
    int ret = prewarm_plan(invocation->runtime, create, out, err);
    return ret < 0 ? ret : output_json(out, err);
}

const struct command command_plan = {
    .name = "plan",
    .arguments = "[ID]",
    .summary = "show as JSON what 'create' would do, and change nothing",
    .options = options,
    .values_size = sizeof(struct create_options),
    .max_args = 1,
    .run = plan_run,
};
