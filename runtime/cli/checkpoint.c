/* checkpoint and restore: accepted by name, so that the caller hears what to use instead. No options are
 * parsed here, because Podman tests for support with them. It infers support from a `checkpoint --help` that
 * succeeds, and from a `restore --lsm-mount-context` that asks for an argument. So the errors must not have
 * the words of crun and runc, "requires an argument" and "needs an argument". */
#include <errno.h>
#include <limits.h>

#include "base/error.h"
#include "cli/commands.h"

static int checkpoint_refuse(struct invocation *invocation, void *values, struct error *err)
{
    (void)invocation;
    (void)values;
    return error_text(
        err, -EOPNOTSUPP,
        "this runtime does not checkpoint containers: 'warm save' saves a Python process that has "
        "parked itself, and Sandbox.snapshot() of the package pysbx saves a session");
}

static int restore_refuse(struct invocation *invocation, void *values, struct error *err)
{
    (void)invocation;
    (void)values;
    return error_text(err, -EOPNOTSUPP,
                      "this runtime does not restore containers: 'run --snapshot' continues a process that "
                      "'warm save' has saved, and 'pysbx sessions restore' a session");
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
    .run = restore_refuse,
};
