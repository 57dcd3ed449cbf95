/* Command lines of CPython: the runtime's interpretation, and that the interpreter agrees. */
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/io.h"
#include "unit.h"
#include "warm/command_line.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define WORDS_MAX    16

struct warm_sample {
    const char *argv[WORDS_MAX];
    const char *options; /* the arguments for the builder */
    enum warm_program program;
    size_t index;
};

static const struct warm_sample warm_samples[] = {
    {{"python3", "-c", "pass"}, "", WARM_PROGRAM_COMMAND, 2},
    {{"python3", "-c", "pass", "-c", "x"}, "", WARM_PROGRAM_COMMAND, 2},
    {{"python3", "-c", "-1"}, "", WARM_PROGRAM_COMMAND, 2},
    {{"python3", "-Ic", "pass", "a"}, "-I", WARM_PROGRAM_COMMAND, 2},
    {{"python3", "-m", "probe", "-v"}, "", WARM_PROGRAM_MODULE, 2},
    {{"python3", "-bBEsSuqOO", "-m", "probe"}, "-b -B -E -s -S -u -q -O -O", WARM_PROGRAM_MODULE, 3},
    {{"python3", "-bb", "-R", "-c", ""}, "-b -b -R", WARM_PROGRAM_COMMAND, 4},
    {{"python3", "-Werror", "-W", "ignore::UserWarning", "-c", "pass"},
     "-W error -W ignore::UserWarning",
     WARM_PROGRAM_COMMAND,
     5},
    {{"python3", "-uW", "default", "-c", "pass"}, "-u -W default", WARM_PROGRAM_COMMAND, 4},
    {{"python3", "-Xdev", "-X", "utf8=1", "-c", "pass"}, "-X dev -X utf8=1", WARM_PROGRAM_COMMAND, 5},
    {{"python3", "-X", "any=thing", "-Xperfect", "-c", "pass"},
     "-X any=thing -X perfect",
     WARM_PROGRAM_COMMAND,
     5},
    {{"python3", "-X", "pycache_prefix=/nowhere", "-c", "pass"},
     "-X pycache_prefix=/nowhere",
     WARM_PROGRAM_COMMAND,
     4},
    {{"python3", "--check-hash-based-pycs", "always", "-c", "pass"},
     "--check-hash-based-pycs always",
     WARM_PROGRAM_COMMAND,
     4},
    {{"python3", "probe.py", "-c", "x"}, "", WARM_PROGRAM_FILE, 1},
    {{"python3", "-I", "--", "probe.py", "--", "x"}, "-I", WARM_PROGRAM_FILE, 3},
    {{"python3", "-"}, "", WARM_PROGRAM_STDIN, 1},
    {{"python3", "-", "a", "-b"}, "", WARM_PROGRAM_STDIN, 1},
    {{"python3", "-u", "--", "-", "a"}, "-u", WARM_PROGRAM_STDIN, 3},
    {{"python3"}, "", WARM_PROGRAM_STDIN, 1},
    {{"python3", "-B", "--"}, "-B", WARM_PROGRAM_STDIN, 3},
};

static const struct {
    const char *argv[WORDS_MAX];
    const char *reason;
} cold_samples[] = {
    {{"python3", "-i", "x.py"}, "-i asks for an interactive interpreter"},
    {{"python3", "-Ii", "-c", "pass"}, "-i asks for an interactive interpreter"},
    {{"python3", "-h"}, "-h asks for help"},
    {{"python3", "-?"}, "-? asks for help"},
    {{"python3", "-VV"}, "-V asks for the version"},
    {{"python3", "-v", "-c", "pass"}, "-v shows the imports as they happen"},
    {{"python3", "-x", "a.py"}, "-x skips the first line of the program"},
    {{"python3", "-d", "a.py"}, "-d shows the parser at work"},
    {{"python3", "--version"}, "option '--version' is not supported"},
    {{"python3", "--help-all"}, "option '--help-all' is not supported"},
    {{"python3", "-J"}, "option '-J' is not supported"},
    {{"python3", "-Z", "a.py"}, "option '-Z' is not supported"},
    {{"python3", "-c"}, "-c lacks its argument"},
    {{"python3", "-m"}, "-m lacks its argument"},
    {{"python3", "-W"}, "-W lacks its argument"},
    {{"python3", "-X"}, "-X lacks its argument"},
    {{"python3", "--check-hash-based-pycs"}, "--check-hash-based-pycs lacks its argument"},
    {{"python3", "-cpass"}, "the argument of -c is in the same word"},
    {{"python3", "-mjson.tool"}, "the argument of -m is in the same word"},
    {{"python3", "-X", "importtime", "-c", ""}, "-X importtime is not supported"},
    {{"python3", "-Xtracemalloc=5", "-c", ""}, "-X tracemalloc=5 is not supported"},
    {{"python3", "-X", "perf", "-c", ""}, "-X perf is not supported"},
};

static const char probe[] =
    "import sys\nprint(sys.flags, sys.warnoptions, sys._xoptions, sys.pycache_prefix, sys.argv[1:])\n";

static char *const *words(const char *const *argv)
{
    return (char *const *)(uintptr_t)argv;
}

static const char *joined(struct arena *a, const char *const *list, size_t count)
{
    const char *text = "";
    for (size_t i = 0; i < count; i++)
        text = arena_printf(a, "%s%s%s", text, i > 0 ? " " : "", list[i]);
    return text;
}

/* Return the interpreter's output if standard input is the probe. */
static const char *output_of(struct arena *a, const char *const *argv)
{
    int pipe_fds[2], status;
    char *text;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        bail_out("pipe");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], 1);
    posix_spawn_file_actions_addopen(&actions, 0, "probe.py", O_RDONLY, 0);
    int ret = posix_spawnp(&pid, argv[0], &actions, NULL, words(argv), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_fds[1]);
    if (ret != 0 || io_read_fd(a, pipe_fds[0], 65536, &text, NULL) < 0)
        bail_out("cannot run %s", argv[0]);
    close(pipe_fds[0]);
    waitpid(pid, &status, 0);
    return text;
}

/* The same start with a program that shows the interpreter's view, then with the options as the runtime
 * understood them. */
static void compare_with_interpreter(struct arena *a, const struct warm_sample *sample,
                                     const struct command_line *line, const char *name)
{
    const char *argv[WORDS_MAX + 1] = {0}, *again[WORDS_MAX + 1] = {"python3"};
    size_t n = 1;
    memcpy(argv, sample->argv, sizeof(sample->argv));
    if (line->program == WARM_PROGRAM_COMMAND)
        argv[line->program_index] = probe;
    for (size_t i = 0; i < line->option_count; i++)
        again[n++] = line->options[i];
    again[n++] = "-c";
    again[n++] = probe;
    if (argv[line->program_index] != NULL)
        for (size_t i = line->program_index + 1; argv[i] != NULL && n < WORDS_MAX; i++)
            again[n++] = argv[i];
    is_str(output_of(a, argv), output_of(a, again), "'%s': the interpreter understands the same", name);
}

static void make_probe(void)
{
    static char directory[] = "/tmp/pysbx-unit.XXXXXX";
    if (mkdtemp(directory) == NULL || chdir(directory) < 0 ||
        io_create_file_at(AT_FDCWD, "probe.py", probe, sizeof(probe) - 1, 0644) < 0)
        bail_out("cannot write the probe");
}

static void remove_probe(void)
{
    char directory[64];
    (void)unlink("probe.py");
    if (getcwd(directory, sizeof(directory)) != NULL && chdir("/") == 0)
        (void)rmdir(directory);
}

static bool have_interpreter(void)
{
    return access("/usr/bin/python3", X_OK) == 0 || access("/usr/local/bin/python3", X_OK) == 0;
}

int main(void)
{
    struct arena a = {0};
    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    make_probe();
    for (size_t i = 0; i < COUNT(warm_samples); i++) {
        const struct warm_sample *s = &warm_samples[i];
        struct command_line line;
        size_t count = 0;
        while (s->argv[count] != NULL)
            count++;
        const char *name = joined(&a, s->argv, count);
        const char *reason = command_line_parse(&a, words(s->argv), false, &line);
        if (!is_str(reason, NULL, "'%s': warm", name))
            continue;
        is_str(joined(&a, line.options, line.option_count), s->options, "'%s': options", name);
        is_int(line.program, s->program, "'%s': kind of program", name);
        is_int(line.program_index, s->index, "'%s': position of the program", name);
        if (have_interpreter())
            compare_with_interpreter(&a, s, &line, name);
        else
            skip("no Python to compare with");
    }
    for (size_t i = 0; i < COUNT(cold_samples); i++) {
        struct command_line line;
        is_str(command_line_parse(&a, words(cold_samples[i].argv), false, &line), cold_samples[i].reason,
               "'%s %s': cold", cold_samples[i].argv[0], cold_samples[i].argv[1]);
    }
    const char *const bare[] = {"python3", NULL}, *const dash[] = {"python3", "-", NULL},
                      *const command[] = {"python3", "-c", "", NULL};
    struct command_line line;
    ok(command_line_parse(&a, words(bare), true, &line) != NULL, "nothing to run, on a terminal: cold");
    ok(command_line_parse(&a, words(dash), true, &line) != NULL, "'-' on a terminal: cold");
    is_str(command_line_parse(&a, words(command), true, &line), NULL, "a command on a terminal: warm");
    remove_probe();
    arena_free(&a);
    return done_testing();
}
