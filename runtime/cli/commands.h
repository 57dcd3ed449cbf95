/* All commands, each defined in the file of its name. */
#pragma once

#include "cli/command.h"

/* Call X for each command, in the order of --help. */
#define COMMANDS(X)                                                                                          \
    X(create)                                                                                                \
    X(start)                                                                                                 \
    X(run)                                                                                                   \
    X(exec)                                                                                                  \
    X(confine)                                                                                               \
    X(state)                                                                                                 \
    X(kill)                                                                                                  \
    X(delete)                                                                                                \
    X(list)                                                                                                  \
    X(ps)                                                                                                    \
    X(pause)                                                                                                 \
    X(resume)                                                                                                \
    X(update)                                                                                                \
    X(events)                                                                                                \
    X(spec)                                                                                                  \
    X(plan)                                                                                                  \
    X(warm)                                                                                                  \
    X(features)                                                                                              \
    X(checkpoint)                                                                                            \
    X(restore)

#define COMMAND_DECLARATION(name) extern const struct command command_##name;
COMMANDS(COMMAND_DECLARATION)
