/* Command line options as tables: one row an option, from which come parsing, messages, help and completion.
 * getopt(3) is not used, since it knows neither values nor help. */
#ifndef PYSBX_CLI_OPTIONS_H
#define PYSBX_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct error;

/* What a row stores at its offset in the values of the command. */
enum option_kind {
    OPTION_FLAG,    /* bool; "=true" and "=false" may follow the name, as programs in Go write it */
    OPTION_STRING,  /* const char * */
    OPTION_LIST,    /* struct str_list (spec/spec.h); the option may be given again and again */
    OPTION_COUNT,   /* unsigned: a decimal number */
    OPTION_INTEGER, /* struct opt_i64: a decimal number */
    OPTION_SIZE,    /* struct opt_i64: bytes, or with a suffix k, m, g, t (powers of 1024); -1: no limit */
    OPTION_CHOICE,  /* int: the value that belongs to the word */
    OPTION_IGNORED, /* nothing; "=value" may follow the name, the next word never belongs to it */
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
    const char *argument; /* what help calls the value: "DIR" */
    const char *help;
    const struct option_choice *choices;
};

enum options_result { OPTIONS_DONE, OPTIONS_HELP };

/* Read the options of argv[0 … *count - 1] into `values` and leave what is not an option at the front of
 * argv, *count of them. "--" ends the options, and with `stop` so does the first word that is not one. --help
 * and -h are options of every table: OPTIONS_HELP is returned at once. Values point into argv, lists are in
 * the arena. Returns a result or a negative errno; err names the option as it was written. */
int options_parse(struct arena *a, const struct option *table, bool stop, char **argv, int *count,
                  void *values, struct error *err);

/* Print one line an option, and one for --help, to standard output. */
void options_print(const struct option *table);

#endif
