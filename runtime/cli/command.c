/* From the command line to one command: global options, the command's own options, help. */
#include "cli/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/output.h"
#include "cli/version.h"
#include "container/options.h"

struct global_options {
    const char *root;
    struct log_options log;
    int log_json, log_level; /* as OPTION_CHOICE stores them */
    bool debug, systemd_cgroup, version;
    int cgroup_manager;
};

/* One more than the real values, because 0 means that the option was not given. */
static const struct option_choice cgroup_managers[] = {{"systemd", CGROUP_MANAGER_SYSTEMD + 1},
                                                       {"cgroupfs", CGROUP_MANAGER_CGROUPFS + 1},
                                                       {"disabled", CGROUP_MANAGER_DISABLED + 1},
                                                       {NULL, 0}};

static const struct option_choice log_formats[] = {{"text", false}, {"json", true}, {NULL, 0}};

static const struct option_choice log_levels[] = {{"error", LOG_LEVEL_ERROR},  {"warning", LOG_LEVEL_WARNING},
                                                  {"warn", LOG_LEVEL_WARNING}, {"info", LOG_LEVEL_INFO},
                                                  {"debug", LOG_LEVEL_DEBUG},  {NULL, 0}};

#define GLOBAL(field) offsetof(struct global_options, field)
static const struct option global_options[] = {
    {"root", 0, OPTION_STRING, GLOBAL(root), "DIR", "directory for the state of containers", NULL},
    {"log", 0, OPTION_STRING, GLOBAL(log.target), "TARGET",
     "write errors also to a file, syslog:NAME or journald:NAME", NULL},
    {"log-format", 0, OPTION_CHOICE, GLOBAL(log_json), "FORMAT", "format of the log: text or json",
     log_formats},
    {"log-level", 0, OPTION_CHOICE, GLOBAL(log_level), "LEVEL",
     "least severe level: error, warning, info or debug", log_levels},
    {"debug", 0, OPTION_FLAG, GLOBAL(debug), NULL, "the same as --log-level debug", NULL},
    {"systemd-cgroup", 0, OPTION_FLAG, GLOBAL(systemd_cgroup), NULL, "the same as --cgroup-manager systemd",
     NULL},
    {"cgroup-manager", 0, OPTION_CHOICE, GLOBAL(cgroup_manager), "MANAGER",
     "how to create cgroups: systemd, cgroupfs or disabled (default: cgroupfs)", cgroup_managers},
    {"rootless", 0, OPTION_IGNORED, 0, NULL, "ignored, for compatibility; rootless is detected", NULL},
    {"version", 'v', OPTION_FLAG, GLOBAL(version), NULL, "show the version", NULL},
    {0},
};

const struct option command_no_options[] = {{0}};

static int show_program_help(const struct command *const *commands, struct error *err)
{
    puts("usage: pysbx-runtime [OPTION...] COMMAND [ARGUMENT...]\n\nRun containers as the OCI runtime "
         "specification describes them.\n\nCommands:");
    for (; *commands != NULL; commands++)
        printf("  %-12s%s\n", (*commands)->name, (*commands)->summary);
    puts("\nOptions:");
    options_print(global_options);
    puts("\n'pysbx-runtime COMMAND --help' shows the options of a command.");
    return output_finish(err);
}

static int show_command_help(const struct command *command, struct error *err)
{
    printf("usage: pysbx-runtime %s [OPTION...]%s%s\n\n%s\n\n", command->name,
           command->arguments[0] != '\0' ? " " : "", command->arguments, command->summary);
    options_print(command->options);
    return output_finish(err);
}

static int show_version(struct error *err)
{
    fputs(version_text, stdout);
    return output_finish(err);
}

static const struct command *find_command(const struct command *const *commands, const char *name)
{
    for (; *commands != NULL; commands++)
        if (strcmp((*commands)->name, name) == 0)
            return *commands;
    return NULL;
}

static enum cgroup_manager choose_cgroup_manager(const struct global_options *global)
{
    if (global->cgroup_manager != 0)
        return (enum cgroup_manager)(global->cgroup_manager - 1);
    return global->systemd_cgroup ? CGROUP_MANAGER_SYSTEMD : CGROUP_MANAGER_CGROUPFS;
}

static int check_argument_count(const struct command *command, int count, struct error *err)
{
    if (count >= command->min_args && count <= command->max_args)
        return 0;
    return error_text(err, -EINVAL, "%s arguments: usage: pysbx-runtime %s [OPTION...]%s%s",
                      count < command->min_args ? "too few" : "too many", command->name,
                      command->arguments[0] != '\0' ? " " : "", command->arguments);
}

int command_invoke(const struct command *command, struct invocation *invocation, struct error *err)
{
    void *values = arena_alloc(invocation->arena, command->values_size);
    int ret = options_parse(invocation->arena, command->options, command->program_follows, invocation->args,
                            &invocation->count, values, err);
    if (ret < 0)
        return ret;
    if (ret == OPTIONS_HELP)
        return show_command_help(command, err);
    ret = check_argument_count(command, invocation->count, err);
    if (ret < 0)
        return ret;
    invocation->args[invocation->count] = NULL;
    return command->run(invocation, values, err);
}

static int dispatch(struct arena *a, const struct command *const *commands, int argc, char **argv,
                    int *exit_code, struct error *err)
{
    struct global_options global = {0};
    int count = argc - 1;
    char **args = argv + 1;
    int ret = options_parse(a, global_options, true, args, &count, &global, err);
    /* Open the log even if the rest of the command line is wrong, so that this error is logged too. */
    global.log.json = global.log_json != 0;
    global.log.level = global.debug ? LOG_LEVEL_DEBUG : (enum log_level)global.log_level;
    struct error log_error;
    int log_ret = log_open(&global.log, &log_error);
    if (ret < 0)
        return ret;
    if (log_ret < 0) {
        *err = log_error;
        return log_ret;
    }
    if (ret == OPTIONS_HELP)
        return show_program_help(commands, err);
    if (global.version)
        return show_version(err);
    if (count == 0)
        return error_text(err, -EINVAL, "no command given: see 'pysbx-runtime --help'");

    const struct command *command = find_command(commands, args[0]);
    if (command == NULL)
        return error_text(err, -EINVAL, "unknown command '%s': see 'pysbx-runtime --help'", args[0]);
    const struct runtime_options runtime = {
        .root = global.root, .cgroup_manager = choose_cgroup_manager(&global), .version = version_build};
    struct invocation invocation = {.arena = a, .runtime = &runtime, .args = args + 1, .count = count - 1};
    ret = command_invoke(command, &invocation, err);
    *exit_code = ret < 0 ? command->error_code : invocation.exit_code;
    return ret;
}

int command_dispatch(const struct command *const *commands, int argc, char **argv, int *exit_code,
                     struct error *err)
{
    struct arena arena = {0};
    *exit_code = 0;
    int ret = dispatch(&arena, commands, argc, argv, exit_code, err);
    if (ret < 0 && *exit_code == 0)
        *exit_code = 1;
    arena_free(&arena);
    return ret;
}
