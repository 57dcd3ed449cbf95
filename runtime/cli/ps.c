/* ps: the processes of a container, in the output of the host's ps(1). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json_out.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "container/lifecycle.h"

struct ps_values {
    int format;
};

static const struct option options[] = {
    {"format", 'f', OPTION_CHOICE, offsetof(struct ps_values, format), "FORMAT",
     "table (default), or json for an array of process ids", output_formats},
    {0},
};

struct pid_list {
    const pid_t *items;
    size_t count;
};

static int ps_print_json(struct pid_list pids, struct error *err)
{
    cleanup_json_out struct json_out *out = json_out_new(false);
    json_out_array_open(out);
    for (size_t i = 0; i < pids.count; i++)
        json_out_i64(out, pids.items[i]);
    json_out_array_close(out);
    return output_json(out, err);
}

/* Start ps with the given arguments, by default "-ef". *output is the end of its output pipe, which the
 * caller closes. */
static int spawn_ps(const struct invocation *invocation, pid_t *child, int *output, struct error *err)
{
    char **args = ARENA_ARRAY(invocation->arena, (size_t)invocation->count + 2, char *);
    args[0] = arena_strdup(invocation->arena, "ps");
    args[1] = arena_strdup(invocation->arena, "-ef");
    for (int i = 1; i < invocation->count; i++)
        args[i] = invocation->args[i];

    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set(err, -errno, "make a pipe for ps");
    cleanup_fd int read_end = ends[0];
    cleanup_fd int write_end = ends[1];
    posix_spawn_file_actions_t actions;
    int ret = posix_spawn_file_actions_init(&actions);
    if (ret == 0) {
        ret = posix_spawn_file_actions_adddup2(&actions, write_end, STDOUT_FILENO);
        if (ret == 0)
            ret = posix_spawnp(child, args[0], &actions, NULL, args, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    if (ret != 0)
        return error_set(err, -ret, "start ps");
    *output = fd_steal(&read_end);
    return 0;
}

/* Return the index of the word PID in the header line, or -1. */
static int find_pid_column(char *header)
{
    char *rest = header;
    int column = 0;
    for (const char *word; (word = strtok_r(rest, " \t\n", &rest)) != NULL; column++)
        if (strcmp(word, "PID") == 0)
            return column;
    return -1;
}

static bool ps_is_listed(const char *line, int column, struct pid_list pids)
{
    static const char blanks[] = " \t";
    line += strspn(line, blanks);
    for (; column > 0; column--) {
        line += strcspn(line, blanks);
        line += strspn(line, blanks);
    }
    long pid = strtol(line, NULL, 10);
    for (size_t i = 0; i < pids.count; i++)
        if (pids.items[i] == pid)
            return true;
    return false;
}

static int filter_lines(struct arena *a, FILE *lines, struct pid_list pids, struct error *err)
{
    cleanup_free char *line = NULL;
    size_t size = 0;
    int column = -1;
    while (getline(&line, &size, lines) > 0) {
        bool is_header = column < 0;
        if (is_header && (column = find_pid_column(arena_strdup(a, line))) < 0)
            return error_text(err, -EINVAL,
                              "ps shows no column PID: add an option that shows it, such as -ef");
        line[strcspn(line, "\n")] = '\0';
        if (is_header || ps_is_listed(line, column, pids))
            puts(str_escaped(a, line));
    }
    return output_finish(err);
}

static int ps_print_table(const struct invocation *invocation, struct pid_list pids, struct error *err)
{
    pid_t child = -1;
    cleanup_fd int output = -1;
    int ret = spawn_ps(invocation, &child, &output, err);
    if (ret < 0)
        return ret;
    FILE *lines = fdopen(output, "r");
    if (lines == NULL) {
        ret = error_set(err, -errno, "read from ps");
    } else {
        fd_steal(&output); /* the stream owns it now */
        ret = filter_lines(invocation->arena, lines, pids, err);
        fclose(lines);
    }
    int status = 0;
    if (RETRY(waitpid(child, &status, 0)) == child && ret == 0 && status != 0)
        ret = error_text(err, -EINVAL, "ps failed");
    return ret;
}

static int ps_run(struct invocation *invocation, void *values, struct error *err)
{
    const struct ps_values *ps = values;
    pid_t *items;
    struct pid_list pids;
    int ret =
        container_pids(invocation->arena, invocation->runtime, invocation->args[0], &items, &pids.count, err);
    if (ret < 0)
        return ret;
    pids.items = items;
    return ps->format == OUTPUT_JSON ? ps_print_json(pids, err) : ps_print_table(invocation, pids, err);
}

const struct command command_ps = {
    .name = "ps",
    .arguments = "ID [PS-OPTION...]",
    .summary = "list the processes of a container",
    .options = options,
    .values_size = sizeof(struct ps_values),
    .min_args = 1,
    .max_args = COMMAND_ANY_ARGS,
    .program_follows = true,
    .run = ps_run,
};
