/* Functions that the commands of `warm` share. */
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

/* Row of --config in a table whose values are struct create_options. */
#define WARM_CONFIG_OPTION                                                                                   \
    {                                                                                                        \
        "config", 'f', OPTION_STRING, offsetof(struct create_options, config), "FILE",                       \
            "configuration, relative to the bundle (default: config.json)", NULL                             \
    }

/* Fill in missing values: bundle and configuration of the working directory, and a name for the container,
 * which is never created. */
void warm_complete(struct create_options *create);

/* Open the caller's store. If *there, the caller closes it with store_close. A missing store counts as empty:
 * 0, *there is false, and err has the reason. Negative errno on failure. */
int warm_open_store(struct arena *a, struct store *store, bool *there, struct error *err);

#endif
