/* warm: the store of prewarmed interpreters. The command has commands of its own. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/warm.h"
#include "prewarm/commands.h"
#include "prewarm/upkeep.h"

/* Name of the container whose snapshot is built or compared. The container itself is never created. */
#define CONTAINER_ID "warm"

void warm_complete(struct create_options *create)
{
    create->id = CONTAINER_ID;
    if (create->bundle == NULL)
        create->bundle = ".";
    if (create->config == NULL)
        create->config = "config.json";
}

/* build */

static const struct option build_options[] = {
    {"bundle", 'b', OPTION_STRING, offsetof(struct create_options, bundle), "DIR",
     "bundle of the container (default: the working directory)", NULL},
    WARM_CONFIG_OPTION,
    {0},
};

static int run_build(struct invocation *invocation, void *values, struct error *err)
{
    struct create_options *create = values;
    warm_complete(create);
    return prewarm_build(invocation->runtime, create, err);
}

/* save */

struct save_values {
    bool differences, kill;
};

static const struct option save_options[] = {
    {"differences", 'd', OPTION_FLAG, offsetof(struct save_values, differences), NULL,
     "leave out pages that the container's snapshot has, and print its path, for 'run --snapshot-base'",
     NULL},
    {"kill", 'k', OPTION_FLAG, offsetof(struct save_values, kill), NULL,
     "kill the process afterwards, also if it cannot be saved", NULL},
    {0},
};

static int run_save(struct invocation *invocation, void *values, struct error *err)
{
    const struct save_values *chosen = values;
    const char *base = NULL;
    char **args = invocation->args;
    uint64_t pid;
    int ret = str_to_u64(args[1], INT32_MAX, &pid);
    if (ret < 0 || pid == 0)
        return error_text(err, -EINVAL, "'%s' is not a process id", args[1]);
    const struct save_options save = {.id = args[0],
                                      .pid = (pid_t)pid,
                                      .file = args[2],
                                      .differences = chosen->differences,
                                      .kill = chosen->kill};
    ret = prewarm_save(invocation->arena, invocation->runtime, &save, &base, err);
    if (ret < 0 || base == NULL)
        return ret;
    puts(base);
    return output_finish(err);
}

/* verify */

static int run_verify(struct invocation *invocation, void *values, struct error *err)
{
    (void)values;
    struct arena *a = invocation->arena;
    struct str_list damaged;
    size_t count;
    int ret = upkeep_verify(a, invocation->count > 0 ? invocation->args[0] : NULL, &damaged, &count, err);
    if (ret < 0)
        return ret;
    for (size_t i = 0; i < damaged.count; i++)
        puts(str_escaped(a, damaged.items[i]));
    ret = output_finish(err);
    if (ret < 0 || damaged.count == 0)
        return ret;
    return error_text(err, -EUCLEAN, "%zu of %zu snapshots are damaged: 'warm prune' removes them",
                      damaged.count, count);
}

/* prune */

static const struct option prune_options[] = {
    {"all", 'a', OPTION_FLAG, offsetof(struct prune_request, all), NULL, "remove every snapshot", NULL},
    {"max-size", 0, OPTION_SIZE, offsetof(struct prune_request, max_size), "BYTES",
     "keep at most this, of the snapshots used last (default: maxSize of warm.json)", NULL},
    {"older-than", 0, OPTION_INTEGER, offsetof(struct prune_request, older_than), "SECONDS",
     "remove older snapshots (default: maxAge of warm.json)", NULL},
    {0},
};

static int run_prune(struct invocation *invocation, void *values, struct error *err)
{
    struct prune_request *request = values;
    size_t removed;
    request->key = invocation->count > 0 ? invocation->args[0] : NULL;
    int ret = upkeep_prune(invocation->arena, request, &removed, err);
    if (ret < 0)
        return ret;
    printf("%zu removed\n", removed);
    return output_finish(err);
}

static const struct command command_build = {
    .name = "warm build",
    .arguments = "",
    .summary = "build the snapshot for the program of a bundle, unless there is a fresh one",
    .options = build_options,
    .values_size = sizeof(struct create_options),
    .run = run_build,
};

static const struct command command_save = {
    .name = "warm save",
    .arguments = "ID PID FILE",
    .summary = "save a process that has parked itself, for 'run --snapshot FILE'",
    .options = save_options,
    .values_size = sizeof(struct save_values),
    .min_args = 3,
    .max_args = 3,
    .run = run_save,
};

static const struct command command_verify = {
    .name = "warm verify",
    .arguments = "[KEY]",
    .summary = "compare one snapshot, or all, with their checksums",
    .options = command_no_options,
    .max_args = 1,
    .run = run_verify,
};

static const struct command command_prune = {
    .name = "warm prune",
    .arguments = "[KEY]",
    .summary = "remove one snapshot, or all that are too old, used too often, damaged or too large",
    .options = prune_options,
    .values_size = sizeof(struct prune_request),
    .max_args = 1,
    .run = run_prune,
};

static const struct command *const commands[] = {
    &command_build, &command_save, &command_warm_list, &command_warm_show, &command_verify, &command_prune,
};

static int warm_run(struct invocation *invocation, void *values, struct error *err)
{
    (void)values;
    const char *name = invocation->args[0];
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (!str_eq(str_after(commands[i]->name, "warm "), name))
            continue;
        invocation->args++;
        invocation->count--;
        return command_invoke(commands[i], invocation, err);
    }
    return error_text(err, -EINVAL, "unknown command 'warm %s': see 'pysbx-runtime warm --help'", name);
}

const struct command command_warm = {
    .name = "warm",
    .arguments = "build|save|list|show|verify|prune [ARGUMENT...]",
    .summary = "build, list, show, verify and remove snapshots of Python interpreters",
    .options = command_no_options,
    .min_args = 1,
    .max_args = COMMAND_ANY_ARGS,
    .program_follows = true,
    .run = warm_run,
};
