/* All commands, each defined in the file of its name. */
#ifndef PYSBX_CLI_COMMANDS_H
#define PYSBX_CLI_COMMANDS_H

#include "cli/command.h"

extern const struct command command_checkpoint, command_create, command_delete, command_events, command_exec,
    command_features, command_kill, command_list, command_pause, command_plan, command_ps, command_restore,
    command_resume, command_run, command_spec, command_start, command_state, command_update, command_warm;

#endif
