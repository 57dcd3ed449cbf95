/* create and run: they have the same options, and differ in whether the program starts at once. */
#include <errno.h>
#include <limits.h>
#include <stddef.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/listen_fds.h"
#include "container/options.h"
#include "prewarm/commands.h"

#define AT(field) offsetof(struct create_options, field)
#define COMMON_OPTIONS                                                                                       \
    {"bundle",   'b',   OPTION_STRING,                                                                       \
     AT(bundle), "DIR", "bundle of the container (default: the working directory)",                          \
     NULL},                                                                                                  \
        {"config",   'f',    OPTION_STRING,                                                                  \
         AT(config), "FILE", "configuration, relative to the bundle (default: config.json)",                 \
         NULL},                                                                                              \
        {"pid-file", 0, OPTION_STRING, AT(pid_file), "FILE", "write the process id to this file", NULL},     \
        {"console-socket",                                                                                   \
         0,                                                                                                  \
         OPTION_STRING,                                                                                      \
         AT(console_socket),                                                                                 \
         "SOCKET",                                                                                           \
         "send the terminal's descriptor to this AF_UNIX socket",                                            \
         NULL},                                                                                              \
        {"pidfd-socket",                                                                                     \
         0,                                                                                                  \
         OPTION_STRING,                                                                                      \
         AT(pidfd_socket),                                                                                   \
         "SOCKET",                                                                                           \
         "send a pidfd of the process to this AF_UNIX socket",                                               \
         NULL},                                                                                              \
        {"preserve-fds",                                                                                     \
         0,                                                                                                  \
         OPTION_COUNT,                                                                                       \
         AT(preserve_fds),                                                                                   \
         "N",                                                                                                \
         "pass on N descriptors after 0, 1, 2 and those of $LISTEN_FDS",                                     \
         NULL},                                                                                              \
        {"snapshot",   0,      OPTION_STRING,                                                                \
         AT(snapshot), "FILE", "continue the session that 'warm save' wrote to this file",                   \
         NULL},                                                                                              \
        {"snapshot-base",                                                                                    \
         0,                                                                                                  \
         OPTION_STRING,                                                                                      \
         AT(snapshot_base),                                                                                  \
         "FILE",                                                                                             \
         "the snapshot whose path 'warm save --differences' has printed",                                    \
         NULL},                                                                                              \
        {"init", 0, OPTION_FLAG, AT(init), NULL, "begin with a minimal init, whose child is the program",    \
         NULL},                                                                                              \
        {"no-pivot",   0,    OPTION_FLAG,                                                                    \
         AT(no_pivot), NULL, "move the mount of the root instead of pivot_root, for an initramfs",           \
         NULL},                                                                                              \
        {"no-new-keyring",                                                                                   \
         0,                                                                                                  \
         OPTION_FLAG,                                                                                        \
         AT(no_new_keyring),                                                                                 \
         NULL,                                                                                               \
         "keep the caller's session keyring",                                                                \
         NULL},                                                                                              \
    {                                                                                                        \
        0                                                                                                    \
    }

static const struct option create_options[] = {COMMON_OPTIONS};

static const struct option run_options[] = {
    {"detach", 'd', OPTION_FLAG, AT(detach), NULL, "return when the program has started", NULL},
    {"status-file", 0, OPTION_STRING, AT(status_file), "FILE", "write how the program has ended to this file",
     NULL},
    {"compare-fd", 0, OPTION_COUNT, AT(compare_fd), "N",
     "for a byte from socket N, compare the snapshot's files; if N is closed, kill the program", NULL},
    {"snapshot-fd", 0, OPTION_COUNT, AT(snapshot_fd), "N",
     "continue the session whose snapshot, and its base, come as descriptors from socket N", NULL},
    {"keep", 0, OPTION_FLAG, AT(keep), NULL, "do not delete the container when the program has ended", NULL},
    {"no-subreaper", 0, OPTION_FLAG, AT(no_subreaper), NULL, "leave orphaned processes to the system's init",
     NULL},
    COMMON_OPTIONS,
};

static struct create_options *complete(const struct invocation *invocation, struct create_options *options)
{
    options->id = invocation->args[0];
    if (options->bundle == NULL)
        options->bundle = ".";
    if (options->config == NULL)
        options->config = "config.json";
    options->listen_fds = listen_fds_count();
    options->preserve_fds += options->listen_fds;
    return options;
}

static int run_create(struct invocation *invocation, void *values, struct error *err)
{
    return prewarm_create(invocation->runtime, complete(invocation, values), err);
}

static int run_run(struct invocation *invocation, void *values, struct error *err)
{
    const struct create_options *options = values;
    if (options->detach && options->status_file != NULL)
        return error_set(err, -EINVAL, "option '--status-file' needs a foreground: leave out '--detach'");
    if (options->snapshot_fd != 0 && (options->snapshot != NULL || options->compare_fd != 0))
        return error_set(err, -EINVAL, "option '--snapshot-fd' excludes '--%s'",
                         options->snapshot != NULL ? "snapshot" : "compare-fd");
    return prewarm_run(invocation->runtime, complete(invocation, values), &invocation->exit_code, err);
}

const struct command command_create = {
    .name = "create",
    .arguments = "ID",
    .summary = "create a container; its program waits for 'start'",
    .options = create_options,
    .values_size = sizeof(struct create_options),
    .min_args = 1,
    .max_args = 1,
    .run = run_create,
};

const struct command command_run = {
    .name = "run",
    .arguments = "ID",
    .summary = "create a container, start its program and wait for its end",
    .options = run_options,
    .values_size = sizeof(struct create_options),
    .min_args = 1,
    .max_args = 1,
    .run = run_run,
};
