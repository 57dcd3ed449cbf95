/* A command of the program, and what it is called with. */
#ifndef PYSBX_CLI_COMMAND_H
#define PYSBX_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/options.h"

struct arena;
struct error;
struct runtime_options;

/* One call of the program. */
struct invocation {
    struct arena *arena; /* lives as long as the call */
    const struct runtime_options *runtime;
    char **args; /* what is left of the command line without options, NULL at the end */
    int count;
    int exit_code; /* set by commands that pass on the exit code of a container's program */
};

struct command {
    const char *name;
    const char *arguments; /* for the usage line: "ID [SIGNAL]" */
    const char *summary;   /* what it does, as help says it */
    const struct option *options;
    size_t values_size; /* of the structure that the options fill; it starts out as zeros */
    int min_args, max_args;
    bool program_follows; /* options end at the first argument: the rest is another program's command line */
    bool unparsed;        /* the whole line is left to the command as arguments */
    /* `values` is the structure. 0 or a negative errno with err filled. */
    int (*run)(struct invocation *invocation, void *values, struct error *err);
};

/* The number of arguments is not limited. */
#define COMMAND_ANY_ARGS INT_MAX

/* A table without options. */
extern const struct option command_no_options[];

/* Read the options of a command from the arguments, show its help or run it: for commands that have commands
 * of their own, whose names then are "COMMAND NAME". */
int command_invoke(const struct command *command, struct invocation *invocation, struct error *err);

/* Read the global options, find the command in the list (NULL at its end), read its options and run it.
 * *exit_code is what the program has to exit with when 0 is returned. */
int command_dispatch(const struct command *const *commands, int argc, char **argv, int *exit_code,
                     struct error *err);

#endif
