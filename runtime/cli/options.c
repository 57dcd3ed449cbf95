/* Parsing and help of option tables. The phrases of the messages ("unknown flag", "flag needs an argument")
 * are those of the Go runtimes, because engines search for them. */
#include "cli/options.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "spec/spec.h"

/* Column at which the help text of an option begins. */
#define HELP_COLUMN 30

struct parser {
    struct arena *arena;
    const struct option *table;
    bool stop;
    char **argv;
    int argc, next; /* the number of words, and the index of the next one */
    void *values;
};

static bool takes_value(enum option_kind kind)
{
    return kind != OPTION_FLAG && kind != OPTION_IGNORED;
}

static const struct option *options_find_name(const struct option *table, const char *name, size_t length)
{
    for (; table->name != NULL; table++)
        if (strlen(table->name) == length && memcmp(table->name, name, length) == 0)
            return table;
    return NULL;
}

static const struct option *find_letter(const struct option *table, char letter)
{
    for (; table->name != NULL; table++)
        if (table->letter == letter)
            return table;
    return NULL;
}

static int store_flag(bool *flag, const char *value)
{
    static const struct option_choice words[] = {{"true", 1}, {"false", 0}, {"1", 1}, {"0", 0}, {NULL, 0}};
    for (const struct option_choice *w = words; w->word != NULL; w++)
        if (strcmp(w->word, value) == 0) {
            *flag = w->value != 0;
            return 0;
        }
    return -EINVAL;
}

static void store_in_list(const struct parser *p, struct str_list *list, const char *value)
{
    if (list->items == NULL)
        list->items = ARENA_ARRAY(p->arena, (size_t)p->argc, const char *); /* its maximum length */
    list->items[list->count++] = value;
}

static int store_count(unsigned *count, const char *value)
{
    uint64_t number;
    int ret = str_to_u64(value, UINT_MAX, &number);
    if (ret < 0)
        return ret;
    *count = (unsigned)number;
    return 0;
}

static int store_integer(struct opt_i64 *integer, const char *value)
{
    int ret = str_to_i64(value, &integer->value);
    integer->set = ret == 0;
    return ret;
}

static int store_size(struct opt_i64 *size, const char *value)
{
    static const char suffixes[] = "kmgt";
    char digits[32];
    size_t length = strlen(value);
    if (length == 0 || length >= sizeof(digits))
        return -EINVAL;
    memcpy(digits, value, length + 1);
    const char *suffix = strchr(suffixes, digits[length - 1] | ('a' ^ 'A'));
    int64_t unit = 1;
    if (suffix != NULL) {
        unit = (int64_t)1 << (10 * (suffix - suffixes + 1));
        digits[length - 1] = '\0';
    }
    int ret = store_integer(size, digits);
    if (ret < 0)
        return ret;
    bool overflow = size->value < -1 || __builtin_mul_overflow(size->value, unit, &size->value);
    return overflow ? -ERANGE : 0;
}

static int store_choice(int *choice, const struct option_choice *choices, const char *value)
{
    for (; choices->word != NULL; choices++)
        if (strcmp(choices->word, value) == 0) {
            *choice = choices->value;
            return 0;
        }
    return -EINVAL;
}

static const char *choice_words(struct arena *a, const struct option_choice *choices)
{
    struct text words = {.arena = a};
    for (; choices->word != NULL; choices++) {
        text_separate(&words, ", ");
        text_add(&words, "%s", choices->word);
    }
    return text_string(&words);
}

static const char *expectation(const struct parser *p, const struct option *option)
{
    switch (option->kind) {
    case OPTION_FLAG:
        return "true or false";
    case OPTION_SIZE:
        return "a number of bytes, with an optional suffix k, m, g or t";
    case OPTION_CHOICE:
        return arena_printf(p->arena, "one of %s", choice_words(p->arena, option->choices));
    default:
        return "a number";
    }
}

/* Store the value. `written` is the option as given on the command line, for messages. */
static int store(const struct parser *p, const struct option *option, const char *written, const char *value,
                 struct error *err)
{
    void *target = (char *)p->values + option->offset;
    int ret = 0;
    switch (option->kind) {
    case OPTION_FLAG:
        ret = store_flag(target, value);
        break;
    case OPTION_STRING:
        *(const char **)target = value;
        break;
    case OPTION_LIST:
        store_in_list(p, target, value);
        break;
    case OPTION_COUNT:
        ret = store_count(target, value);
        break;
    case OPTION_INTEGER:
        ret = store_integer(target, value);
        break;
    case OPTION_SIZE:
        ret = store_size(target, value);
        break;
    case OPTION_CHOICE:
        ret = store_choice(target, option->choices, value);
        break;
    case OPTION_IGNORED:
        break;
    }
    if (ret == -ERANGE)
        return error_text(err, ret, "invalid argument '%s' for %s: out of range", value, written);
    if (ret < 0)
        return error_text(err, ret, "invalid argument '%s' for %s: expected %s", value, written,
                          expectation(p, option));
    return 0;
}

/* Return the value of an option without "=value": "true" for a flag, otherwise the next word, even if it
 * looks like an option. NULL with err filled if there is no word. */
static const char *default_value(struct parser *p, const struct option *option, const char *written,
                                 struct error *err)
{
    if (!takes_value(option->kind))
        return "true";
    if (p->next < p->argc)
        return p->argv[p->next++];
    error_text(err, -EINVAL, "flag needs an argument: %s", written);
    return NULL;
}

/* Parse "--name", "--name=value" or "--name value". */
static int parse_long(struct parser *p, const char *word, struct error *err)
{
    const char *name = word + 2, *value = NULL;
    size_t length = strcspn(name, "=");
    if (name[length] == '=')
        value = name + length + 1;
    if (value == NULL && strcmp(name, "help") == 0)
        return OPTIONS_HELP;
    const char *written = arena_strndup(p->arena, word, length + 2);
    const struct option *option = options_find_name(p->table, name, length);
    if (option == NULL)
        return error_text(err, -EINVAL, "unknown flag: %s", written);
    if (value == NULL)
        value = default_value(p, option, written, err);
    return value == NULL ? -EINVAL : store(p, option, written, value, err);
}

/* Return whether the word is "-name" in place of "--name", as containerd writes some options and libraries of
 * Go take them. A short option that begins so comes first. */
static bool is_long_with_one_dash(const struct parser *p, const char *word)
{
    return find_letter(p->table, word[1]) == NULL &&
           options_find_name(p->table, word + 1, strcspn(word + 1, "=")) != NULL;
}

/* Parse "-abc": several flags, the last of which may have the rest or the next word as its value. */
static int parse_short(struct parser *p, const char *word, struct error *err)
{
    for (const char *letter = word + 1; *letter != '\0'; letter++) {
        const char written[] = {'-', *letter, '\0'};
        const struct option *option = find_letter(p->table, *letter);
        if (option == NULL && *letter == 'h')
            return OPTIONS_HELP;
        if (option == NULL)
            return error_text(err, -EINVAL, "unknown flag: %s", written);
        bool ends_bundle = takes_value(option->kind);
        const char *value;
        if (ends_bundle && letter[1] != '\0')
            value = letter[1] == '=' ? letter + 2 : letter + 1;
        else
            value = default_value(p, option, written, err);
        int ret = value == NULL ? -EINVAL : store(p, option, written, value, err);
        if (ret < 0 || ends_bundle)
            return ret;
    }
    return OPTIONS_DONE;
}

int options_parse(struct arena *a, const struct option *table, bool stop, char **argv, int *count,
                  void *values, struct error *err)
{
    struct parser p = {
        .arena = a, .table = table, .stop = stop, .argv = argv, .argc = *count, .values = values};
    bool options_end = false;
    int kept = 0;
    while (p.next < p.argc) {
        char *word = argv[p.next++];
        int ret = OPTIONS_DONE;
        if (options_end || word[0] != '-' || word[1] == '\0') {
            argv[kept++] = word;
            options_end = options_end || stop;
        } else if (strcmp(word, "--") == 0) {
            options_end = true;
        } else if (word[1] == '-') {
            ret = parse_long(&p, word, err);
        } else if (is_long_with_one_dash(&p, word)) {
            ret = parse_long(&p, arena_printf(a, "-%s", word), err);
        } else {
            ret = parse_short(&p, word, err);
        }
        if (ret != OPTIONS_DONE)
            return ret;
    }
    *count = kept;
    return OPTIONS_DONE;
}

static void print_line(char letter, const char *name, const char *argument, const char *help)
{
    char left[64], dash[8] = "    ";
    if (letter != '\0')
        snprintf(dash, sizeof(dash), "-%c, ", letter);
    snprintf(left, sizeof(left), "  %s--%s%s%s", dash, name, argument != NULL ? " " : "",
             argument != NULL ? argument : "");
    if (strlen(left) >= HELP_COLUMN)
        printf("%s\n%*s%s\n", left, HELP_COLUMN, "", help);
    else
        printf("%-*s%s\n", HELP_COLUMN, left, help);
}

void options_print(const struct option *table)
{
    bool help_letter_is_free = find_letter(table, 'h') == NULL;
    for (; table->name != NULL; table++)
        print_line(table->letter, table->name, table->argument, table->help);
    print_line(help_letter_is_free ? 'h' : '\0', "help", NULL, "show this help");
}
