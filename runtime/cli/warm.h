/* Functions that the commands of `warm` share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/command.h"
#include "container/options.h"

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
