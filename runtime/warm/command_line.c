/* Read the options with a table of letters, in the way of Python/getopt.c and Python/initconfig.c of CPython.
 * Letters may be grouped, and an argument may be in the same or the next word. Everything after -c or -m
 * belongs to the program. */
#include "warm/command_line.h"

#include <string.h>

#include "base/arena.h"
#include "base/str.h"

enum action {
    ACTION_UNKNOWN,
    ACTION_KEEP,     /* shapes the start: part of the key */
    ACTION_KEEP_ARG, /* the same, with an argument */
    ACTION_XOPTION,  /* -X */
    ACTION_COMMAND,
    ACTION_MODULE,
    ACTION_COLD,
};

struct letter {
    enum action action;
    const char *reason; /* for ACTION_COLD */
};

static const struct letter letters[128] = {
    ['b'] = {ACTION_KEEP, NULL},
    ['B'] = {ACTION_KEEP, NULL},
    ['E'] = {ACTION_KEEP, NULL},
    ['I'] = {ACTION_KEEP, NULL},
    ['O'] = {ACTION_KEEP, NULL},
    ['P'] = {ACTION_KEEP, NULL},
    ['q'] = {ACTION_KEEP, NULL},
    ['R'] = {ACTION_KEEP, NULL},
    ['s'] = {ACTION_KEEP, NULL},
    ['S'] = {ACTION_KEEP, NULL},
    ['u'] = {ACTION_KEEP, NULL},
    ['W'] = {ACTION_KEEP_ARG, NULL},
    ['X'] = {ACTION_XOPTION, NULL},
    ['c'] = {ACTION_COMMAND, NULL},
    ['m'] = {ACTION_MODULE, NULL},
    ['d'] = {ACTION_COLD, "-d shows the parser at work"},
    ['h'] = {ACTION_COLD, "-h asks for help"},
    ['?'] = {ACTION_COLD, "-? asks for help"},
    ['i'] = {ACTION_COLD, "-i asks for an interactive interpreter"},
    ['v'] = {ACTION_COLD, "-v shows the imports as they happen"},
    ['V'] = {ACTION_COLD, "-V asks for the version"},
    ['x'] = {ACTION_COLD, "-x skips the first line of the program"},
};

/* Values of -X, by the name before '='. Those listed here trace or measure the start or the process itself.
 * All others, including those that the interpreter does not know, are reproduced by passing them to the
 * builder. */
static const char *const refused_xoptions[] = {
    "importtime", "perf", "perf_jit", "presite", "pystats", "showrefcount", "tracemalloc", NULL,
};

static bool is_refused(const char *xoption)
{
    size_t length = strcspn(xoption, "=");
    for (size_t i = 0; refused_xoptions[i] != NULL; i++)
        if (strlen(refused_xoptions[i]) == length && strncmp(refused_xoptions[i], xoption, length) == 0)
            return true;
    return false;
}

/* The state of the reader. */
struct reader {
    struct arena *arena;
    char *const *argv;
    size_t next;        /* the next word */
    const char *letter; /* the next letter of the current word, "" at its end */
    struct command_line *out;
    bool found; /* -c or -m */
};

static void keep(struct reader *r, const char *word)
{
    r->out->options[r->out->option_count++] = word;
}

/* Return the argument of an option: the rest of its word or the next word; NULL if there is none. */
static const char *take_argument(struct reader *r)
{
    const char *argument = *r->letter != '\0' ? r->letter : r->argv[r->next];
    if (*r->letter == '\0' && argument != NULL)
        r->next++;
    r->letter = "";
    return argument;
}

static const char *take_program(struct reader *r, char letter)
{
    if (*r->letter != '\0')
        return arena_printf(r->arena, "the argument of -%c is in the same word", letter);
    if (take_argument(r) == NULL)
        return arena_printf(r->arena, "-%c lacks its argument", letter);
    r->out->program = letter == 'c' ? WARM_PROGRAM_COMMAND : WARM_PROGRAM_MODULE;
    r->out->program_index = r->next - 1;
    r->found = true;
    return NULL;
}

static const char *take_letter(struct reader *r)
{
    char letter = *r->letter++;
    const struct letter *row = (unsigned char)letter < 128 ? &letters[(unsigned char)letter] : &letters[0];
    const char *argument;
    switch (row->action) {
    case ACTION_KEEP:
        keep(r, arena_printf(r->arena, "-%c", letter));
        return NULL;
    case ACTION_KEEP_ARG:
    case ACTION_XOPTION:
        argument = take_argument(r);
        if (argument == NULL)
            return arena_printf(r->arena, "-%c lacks its argument", letter);
        if (row->action == ACTION_XOPTION && is_refused(argument))
            return arena_printf(r->arena, "-X %s is not supported", argument);
        keep(r, arena_printf(r->arena, "-%c", letter));
        keep(r, argument);
        return NULL;
    case ACTION_COMMAND:
    case ACTION_MODULE:
        return take_program(r, letter);
    case ACTION_COLD:
        return row->reason;
    case ACTION_UNKNOWN:
        break;
    }
    return arena_printf(r->arena, "option '%s' is not supported", r->argv[r->next - 1]);
}

static const char *take_long(struct reader *r, const char *word)
{
    if (!str_eq(word, "--check-hash-based-pycs"))
        return arena_printf(r->arena, "option '%s' is not supported", word);
    r->letter = "";
    const char *argument = take_argument(r);
    if (argument == NULL)
        return "--check-hash-based-pycs lacks its argument";
    keep(r, word);
    keep(r, argument);
    return NULL;
}

static const char *take_options(struct reader *r)
{
    while (!r->found) {
        const char *word = r->argv[r->next];
        if (word == NULL || word[0] != '-' || word[1] == '\0')
            return NULL;
        r->next++;
        if (str_eq(word, "--"))
            return NULL;
        const char *reason = NULL;
        if (word[1] == '-')
            reason = take_long(r, word);
        else
            for (r->letter = word + 1; reason == NULL && *r->letter != '\0';)
                reason = take_letter(r);
        if (reason != NULL)
            return reason;
    }
    return NULL;
}

const char *command_line_parse(struct arena *a, char *const *argv, bool terminal, struct command_line *out)
{
    size_t letters_count = 0;
    for (size_t i = 0; argv[i] != NULL; i++)
        letters_count += strlen(argv[i]) + 1;
    /* An option takes at least one letter and becomes at most two words. */
    *out = (struct command_line){.options = ARENA_ARRAY(a, 2 * letters_count + 1, const char *)};
    struct reader r = {.arena = a, .argv = argv, .next = 1, .letter = "", .out = out};
    const char *reason = take_options(&r);
    if (reason != NULL || r.found)
        return reason;
    const char *word = argv[r.next];
    out->program_index = r.next;
    out->program = word != NULL && !str_eq(word, "-") ? WARM_PROGRAM_FILE : WARM_PROGRAM_STDIN;
    if (out->program == WARM_PROGRAM_STDIN && terminal)
        return "without a program, and with a terminal, the interpreter is interactive";
    return NULL;
}
