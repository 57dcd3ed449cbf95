/* What the commands of `warm` have in common. */
#ifndef PYSBX_CLI_WARM_H
#define PYSBX_CLI_WARM_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/command.h"
#include "container/options.h"

struct arena;
struct error;
struct store;

extern const struct command command_warm_list, command_warm_show;

/* The row of --config in a table whose values are struct create_options. */
#define WARM_CONFIG_OPTION                                                                                   \
    {                                                                                                        \
        "config", 'f', OPTION_STRING, offsetof(struct create_options, config), "FILE",                       \
            "configuration, relative to the bundle (default: config.json)", NULL                             \
    }

/* Put in what was not said: bundle and configuration are those of the working directory, and the container,
 * which is never made itself, has a name. */
void warm_complete(struct create_options *create);

/* Open the caller's store; to be closed with store_close if *there. No store is an empty one: 0, and *there
 * is false, with the reason in err. */
int warm_open_store(struct arena *a, struct store *store, bool *there, struct error *err);

#endif
