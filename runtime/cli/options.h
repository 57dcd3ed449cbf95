/* Command line options as tables, one row for each option. Parsing, messages, help and completion use the
 * rows. getopt(3) is not used, because it supports neither typed values nor help. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct error;

/* Type of the member that a row sets in the values of the command. */
enum option_kind {
    OPTION_FLAG,    /* bool; "=true" and "=false" may follow the name, because engines in Go write that */
    OPTION_STRING,  /* const char * */
    OPTION_LIST,    /* struct str_list (spec/spec.h); the option may be repeated */
    OPTION_COUNT,   /* unsigned: a decimal number */
    OPTION_INTEGER, /* struct opt_i64: a decimal number */
    OPTION_SIZE,    /* struct opt_i64: bytes, or with a suffix k, m, g, t (powers of 1024); -1: no limit */
    OPTION_CHOICE,  /* int: the value of the word */
    OPTION_IGNORED, /* none; "=value" may follow the name, but the next word is not its value */
};

struct option_choice {
    const char *word; /* NULL ends the list */
    int value;
};

struct option {
    const char *name; /* without the dashes; NULL ends a table */
    char letter;      /* short form, or 0 */
    enum option_kind kind;
    size_t offset;
    const char *argument; /* name of the value in the help: "DIR" */
    const char *help;
    const struct option_choice *choices;
};

enum options_result { OPTIONS_DONE, OPTIONS_HELP };

/* Read the options of argv[0] to argv[*count - 1] into `values`. Other words are moved to the front of argv,
 * and *count is then their number. "--" ends the options; with `stop`, the first other word does so too.
 * Every table has --help and -h, for which OPTIONS_HELP is returned at once. Values point into argv, lists
 * are in the arena. Return a result or negative errno; err names the option as it was given. */
int options_parse(struct arena *a, const struct option *table, bool stop, char **argv, int *count,
                  void *values, struct error *err);

/* Print one line for each option, and one for --help, to standard output. */
void options_print(const struct option *table);
