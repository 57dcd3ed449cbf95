/* checkpoint and restore: accepted by name, so that the caller gets a clear answer. No options are parsed
 * here, because Podman tests for support with them. It infers support from a `checkpoint --help` that
 * succeeds, and from a `restore --lsm-mount-context` that asks for an argument. */
#include <errno.h>
#include <limits.h>

#include "base/error.h"
#include "cli/commands.h"

static int checkpoint_refuse(struct invocation *invocation, void *values, struct error *err)
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
    .run = checkpoint_refuse,
};

const struct command command_restore = {
    .name = "restore",
    .arguments = "",
    .summary = "not available",
    .options = command_no_options,
    .unparsed = true,
    .run = checkpoint_refuse,
};
