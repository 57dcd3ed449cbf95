/* The commands of the program, and their arguments. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/options.h"

struct arena;
struct error;
struct runtime_options;

/* One call of the program. */
struct invocation {
    struct arena *arena; /* freed at the end of the call */
    const struct runtime_options *runtime;
    char **args; /* the command line without options, NULL at the end */
    int count;
    int exit_code; /* set by commands that return the exit code of a container's program */
};

struct command {
    const char *name;
    const char *arguments; /* for the usage line: "ID [SIGNAL]" */
    const char *summary;   /* its help text */
    const struct option *options;
    size_t values_size; /* size of the structure that the options fill, which is zeroed first */
    int min_args, max_args;
    int error_code;       /* exit code for an error of the command itself; 0: 1 */
    bool program_follows; /* options end at the first argument, because the rest is another program's command
                             line */
    /* Run the command with `values`, the structure of its options. 0 or negative errno with err filled. */
    int (*run)(struct invocation *invocation, void *values, struct error *err);
};

/* The number of arguments is not limited. */
#define COMMAND_ANY_ARGS INT_MAX

/* A table without options. */
extern const struct option command_no_options[];

/* Read the options of a command from the arguments, and show its help or run it. For commands that have
 * commands of their own, whose names are "COMMAND NAME". 0 or negative errno. */
int command_invoke(const struct command *command, struct invocation *invocation, struct error *err);

/* Read the global options, find the command in the list (NULL at its end), read its options and run it. 0 or
 * negative errno. *exit_code is the exit code for the program in both cases. */
int command_dispatch(const struct command *const *commands, int argc, char **argv, int *exit_code,
                     struct error *err);
