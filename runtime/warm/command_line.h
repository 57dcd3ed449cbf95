/* The command line of CPython, read as the interpreter reads it (using/cmdline in its documentation; 3.9 to
 * 3.15): which options shape the start-up, and what the program is. */
#ifndef PYSBX_WARM_COMMAND_LINE_H
#define PYSBX_WARM_COMMAND_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "warm/params.h"

struct arena;

struct command_line {
    /* The options as they were given, one a word or two, in their order: they are handed to the template as
     * they are, and belong to the key. NULL follows the last. */
    const char **options;
    size_t option_count;
    enum warm_program program;
    size_t
        program_index; /* in argv: see warm_params; argc when standard input is read for want of a program */
};

/* NULL when a snapshot can stand for such a start, else the reason why not, in words for a user (static, or
 * in the arena). argv is NULL-terminated, argv[0] is the interpreter. `terminal`: standard input will be one.
 */
const char *command_line_parse(struct arena *a, char *const *argv, bool terminal, struct command_line *out);

#endif
