/* Read the command line of CPython as the interpreter does (using/cmdline in its documentation; 3.9 to 3.15):
 * the options that shape the start-up, and the program. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "warm/params.h"

struct arena;

struct command_line {
    /* The options as given, one or two words each, in their order. They are passed to the builder unchanged
     * and belong to the key. NULL follows the last. */
    const char **options;
    size_t option_count;
    enum warm_program program;
    size_t program_index; /* in argv: see warm_params; argc when the program comes from standard input because
                             there is no argument */
};

/* Return NULL if a snapshot can replace such a start, else the reason why not, worded for a user (static, or
 * in the arena). argv is NULL-terminated, argv[0] is the interpreter. `terminal`: standard input will be a
 * terminal. */
const char *command_line_parse(struct arena *a, char *const *argv, bool terminal, struct command_line *out);
