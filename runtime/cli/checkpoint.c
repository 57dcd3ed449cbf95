/* checkpoint and restore: known by name, so that what asks for them gets a clear answer. Podman takes a
 * `checkpoint --help` that succeeds for support, and so it does a `restore --lsm-mount-context` that asks for
 * an argument: hence no options are parsed here. */
#include <errno.h>
#include <limits.h>

#include "base/error.h"
#include "cli/commands.h"

static int refuse(struct invocation *invocation, void *values, struct error *err)
{
    (void)invocation;
    (void)values;
    return error_text(err, -EOPNOTSUPP, "this runtime does not checkpoint or restore containers");
}

const struct command command_checkpoint = {
    .name = "checkpoint",
    .arguments = "",
    .summary = "not available",
    .options = command_no_options,
    .unparsed = true,
    .run = refuse,
};

const struct command command_restore = {
    .name = "restore",
    .arguments = "",
    .summary = "not available",
    .options = command_no_options,
    .unparsed = true,
    .run = refuse,
};
