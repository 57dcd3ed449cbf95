/* Command line options: every form of an option, and every message. */
#include "cli/options.h"

#include <errno.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "spec/spec.h"
#include "unit.h"

struct values {
    bool force, all;
    const char *bundle;
    struct str_list env;
    unsigned count;
    struct opt_i64 limit, memory;
    int format;
};

static const struct option_choice formats[] = {{"table", 1}, {"json", 2}, {NULL, 0}};

static const struct option table[] = {
    {"force", 'f', OPTION_FLAG, offsetof(struct values, force), NULL, "", NULL},
    {"all", 'a', OPTION_FLAG, offsetof(struct values, all), NULL, "", NULL},
    {"bundle", 'b', OPTION_STRING, offsetof(struct values, bundle), "DIR", "", NULL},
    {"env", 'e', OPTION_LIST, offsetof(struct values, env), "NAME=VALUE", "", NULL},
    {"count", 'n', OPTION_COUNT, offsetof(struct values, count), "N", "", NULL},
    {"limit", 0, OPTION_INTEGER, offsetof(struct values, limit), "N", "", NULL},
    {"memory", 0, OPTION_SIZE, offsetof(struct values, memory), "BYTES", "", NULL},
    {"format", 0, OPTION_CHOICE, offsetof(struct values, format), "FORMAT", "", formats},
    {"rootless", 0, OPTION_IGNORED, 0, NULL, "", NULL},
    {0},
};

static struct arena arena;
static struct error err;
static struct values values;
static char *words[16]; /* the arguments of the last line parsed, NULL at the end */

/* Parse a line split at blanks. */
static int parse_with(const char *line, bool stop)
{
    int count = 0;
    char *rest = arena_strdup(&arena, line);
    while ((words[count] = strsep(&rest, " ")) != NULL)
        count++;
    if (line[0] == '\0')
        count = 0;
    values = (struct values){0};
    err = (struct error){0};
    int ret = options_parse(&arena, table, stop, words, &count, &values, &err);
    words[count] = NULL;
    return ret;
}

static int parse(const char *line)
{
    return parse_with(line, false);
}

static void test_forms(void)
{
    static const char *const lines[] = {"--bundle=/b ID", "--bundle /b ID", "-b /b ID", "-b/b ID",
                                        "-b=/b ID",       "ID --bundle /b", "ID -b /b"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        is_int(parse(lines[i]), OPTIONS_DONE, "'%s' is understood", lines[i]);
        is_str(values.bundle, "/b", "'%s': value", lines[i]);
        is_str(words[0], "ID", "'%s': the argument is left", lines[i]);
        ok(words[1] == NULL, "'%s': nothing else is left", lines[i]);
    }
    ok(parse("--bundle= ID") == OPTIONS_DONE && values.bundle[0] == '\0', "'--bundle=': an empty value");
    ok(parse("--bundle -x ID") == OPTIONS_DONE && str_eq(values.bundle, "-x"),
       "'--bundle -x': the next word is the value, even if it looks like an option");
}

static void test_flags(void)
{
    ok(parse("--force ID") == OPTIONS_DONE && values.force && !values.all, "--force");
    ok(parse("-fa ID") == OPTIONS_DONE && values.force && values.all, "-fa: flags in a bundle");
    ok(parse("-fab /b ID") == OPTIONS_DONE && values.force && values.all && str_eq(values.bundle, "/b"),
       "-fab /b: the last of a bundle takes a value");
    ok(parse("--force=true") == OPTIONS_DONE && values.force, "--force=true");
    ok(parse("--force --force=false") == OPTIONS_DONE && !values.force, "--force=false cancels it");
    ok(parse("--rootless ID") == OPTIONS_DONE && str_eq(words[0], "ID"), "--rootless takes no separate word");
    ok(parse("--rootless=auto ID") == OPTIONS_DONE && str_eq(words[0], "ID"), "--rootless=auto");
}

static void test_values(void)
{
    ok(parse("-e A=1 --env B=2 --env=C=3") == OPTIONS_DONE && values.env.count == 3 &&
           str_eq(values.env.items[0], "A=1") && str_eq(values.env.items[2], "C=3"),
       "a list keeps every value");
    ok(parse("--count 4294967295") == OPTIONS_DONE && values.count == 4294967295U, "the largest count");
    ok(parse("--limit -1") == OPTIONS_DONE && values.limit.set && values.limit.value == -1, "--limit -1");
    ok(parse("") == OPTIONS_DONE && !values.limit.set, "a limit that is not given is not set");
    ok(parse("--format json") == OPTIONS_DONE && values.format == 2, "--format json");
    static const struct {
        const char *text;
        int64_t bytes;
    } sizes[] = {{"0", 0},
                 {"1000", 1000},
                 {"4k", 4096},
                 {"4K", 4096},
                 {"512m", 512LL << 20},
                 {"2g", 2LL << 30},
                 {"1T", 1LL << 40},
                 {"-1", -1},
                 {"9223372036854775807", INT64_MAX}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char line[64];
        snprintf(line, sizeof(line), "--memory %s", sizes[i].text);
        ok(parse(line) == OPTIONS_DONE && values.memory.set, "'%s' is understood", line);
        is_int(values.memory.value, sizes[i].bytes, "'%s' in bytes", line);
    }
}

static void test_end_of_options(void)
{
    ok(parse("-- -f") == OPTIONS_DONE && !values.force && str_eq(words[0], "-f"), "-- ends the options");
    ok(parse("-") == OPTIONS_DONE && str_eq(words[0], "-"), "a single dash is an argument");
    ok(parse_with("-f ID ls -a --help", true) == OPTIONS_DONE && values.force && !values.all &&
           str_eq(words[2], "-a") && str_eq(words[3], "--help"),
       "options of the program that follows are not ours");
    is_int(parse("--help"), OPTIONS_HELP, "--help");
    is_int(parse("-h"), OPTIONS_HELP, "-h");
    is_int(parse("-fh"), OPTIONS_HELP, "-fh");
}

static void test_messages(void)
{
    static const struct {
        const char *line, *message;
    } lines[] = {
        {"--nonsense", "unknown flag: --nonsense"},
        {"--nonsense=x", "unknown flag: --nonsense"},
        {"--forc", "unknown flag: --forc"},
        {"-x", "unknown flag: -x"},
        {"-fx", "unknown flag: -x"},
        {"--bundle", "flag needs an argument: --bundle"},
        {"-b", "flag needs an argument: -b"},
        {"--force=maybe", "invalid argument 'maybe' for --force: expected true or false"},
        {"--count x", "invalid argument 'x' for --count: expected a number"},
        {"--count -1", "invalid argument '-1' for --count: expected a number"},
        {"--count 4294967296", "invalid argument '4294967296' for --count: out of range"},
        {"--limit 1x", "invalid argument '1x' for --limit: expected a number"},
        {"--memory 1x", "invalid argument '1x' for --memory: expected a number of bytes, with an optional "
                        "suffix k, m, g or t"},
        {"--memory k", "invalid argument 'k' for --memory: expected a number of bytes, with an optional "
                       "suffix k, m, g or t"},
        {"--memory -2", "invalid argument '-2' for --memory: out of range"},
        {"--memory 9223372036854775807k",
         "invalid argument '9223372036854775807k' for --memory: out of range"},
        {"--format yaml", "invalid argument 'yaml' for --format: expected one of table, json"},
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        ok(parse(lines[i].line) < 0, "'%s' is refused", lines[i].line);
        is_str(err.text, lines[i].message, "'%s': message", lines[i].line);
    }
}

int main(void)
{
    test_forms();
    test_flags();
    test_values();
    test_end_of_options();
    test_messages();
    arena_free(&arena);
    return done_testing();
}
