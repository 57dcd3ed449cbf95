/*
 * Start the commands of a plan repeatedly, and record the time and the memory of each. The program must stay
 * small and statically linked: the maximum resident set size of a child in wait4(2) contains that of its
 * parent at the time of the fork.
 *
 * The plan, from standard input, has one command per line. Its fields are separated by tabs: a label, the
 * program and its arguments. An empty line ends a block. A block runs as a whole. The blocks of each round
 * run in a new order, so that no block always follows the same other one. Commands labelled "@" run without
 * being measured. A line "@reap" waits for all processes that earlier commands left behind. If a command's
 * label begins with ">", its time ends with the first byte of its standard output.
 *
 * Each sample is one line on standard output: label, nanoseconds from before the start to after the wait (or
 * to the first byte), KiB.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_BLOCKS = 256, MAX_COMMANDS = 2048, MAX_FIELDS = 32 };

/* A child's standard output is kept here until the child starts. */
static const int piped_stdout = 100;

struct command {
    const char *label;
    char *argv[MAX_FIELDS];
};

struct block {
    const struct command *commands;
    size_t count;
};

static struct command commands[MAX_COMMANDS];
static struct block blocks[MAX_BLOCKS + 1];
static size_t n_blocks;
static posix_spawn_file_actions_t streams, piped_streams;
/* The pipe for standard error, like the pipes that engines give to their containers. */
static int complaints;

static void parse_command(struct command *command, char *line)
{
    size_t n = 0;

    command->label = strsep(&line, "\t");
    while (line) {
        if (n == MAX_FIELDS - 1)
            errx(2, "more than %d fields in a command", MAX_FIELDS - 1);
        command->argv[n++] = strsep(&line, "\t");
    }
}

static void read_plan(FILE *file)
{
    size_t n_commands = 0;
    char *line = NULL;
    size_t size = 0;
    ssize_t length;

    while ((length = getline(&line, &size, file)) >= 0) {
        if (line[length - 1] == '\n')
            line[length - 1] = '\0';
        if (line[0] == '\0') {
            n_blocks += blocks[n_blocks].count > 0;
        } else {
            if (n_commands == MAX_COMMANDS || n_blocks == MAX_BLOCKS)
                errx(2, "the plan is too long");
            struct block *block = &blocks[n_blocks];

            if (block->count == 0)
                block->commands = &commands[n_commands];
            block->count++;
            parse_command(&commands[n_commands++], line);
            /* The fields of the command point into it. */
            line = NULL;
            size = 0;
        }
    }
    n_blocks += blocks[n_blocks].count > 0;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static void reap_all(void)
{
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
}

/* End the program with the failed command's output on standard error. */
static void fail(const struct command *command, int status)
{
    char text[4096];
    ssize_t length = read(complaints, text, sizeof text);

    fprintf(stderr, "%s: %s %d: %.*s\n", command->label, WIFEXITED(status) ? "exit status" : "signal",
            WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), length > 0 ? (int)length : 0, text);
    exit(1);
}

static void start(const struct command *command, const posix_spawn_file_actions_t *actions, pid_t *pid)
{
    errno = posix_spawnp(pid, command->argv[0], actions, NULL, command->argv, environ);
    if (errno != 0)
        err(1, "start '%s'", command->argv[0]);
}

/* Start a command, and return the time of the first byte of its output, after reading all of it. */
static uint64_t start_and_read(const struct command *command, pid_t *pid)
{
    char bytes[4096];
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0 || dup3(ends[1], piped_stdout, O_CLOEXEC) < 0)
        err(1, "make a pipe");
    close(ends[1]);
    start(command, &piped_streams, pid);
    close(piped_stdout);

    ssize_t length = read(ends[0], bytes, sizeof bytes);
    uint64_t first = now_ns();

    while (length > 0)
        length = read(ends[0], bytes, sizeof bytes);
    close(ends[0]);
    return first;
}

static void forget_complaints(void)
{
    char bytes[4096];

    while (read(complaints, bytes, sizeof bytes) > 0)
        ;
}

static void run_command(const struct command *command, int report)
{
    struct rusage usage;
    int status;
    pid_t pid;
    uint64_t end = 0;

    if (strcmp(command->label, "@reap") == 0) {
        reap_all();
        return;
    }
    forget_complaints();

    uint64_t began = now_ns();

    if (command->label[0] == '>')
        end = start_and_read(command, &pid);
    else
        start(command, &streams, &pid);
    while (wait4(pid, &status, 0, &usage) < 0)
        if (errno != EINTR)
            err(1, "wait4");

    if (end == 0)
        end = now_ns();
    if (status != 0)
        fail(command, status);
    if (report && command->label[0] != '@')
        printf("%s\t%ju\t%ld\n", command->label, (uintmax_t)(end - began), usage.ru_maxrss);
}

static void run_round(int report)
{
    struct block order[MAX_BLOCKS];

    memcpy(order, blocks, sizeof order);
    for (size_t i = n_blocks; i > 0; i--) {
        size_t chosen = (size_t)random() % i;
        struct block block = order[chosen];

        order[chosen] = order[i - 1];
        for (size_t j = 0; j < block.count; j++)
            run_command(&block.commands[j], report);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        errx(2, "usage: measure ROUNDS WARMUP <PLAN");

    long rounds = strtol(argv[1], NULL, 10);
    long warmup = strtol(argv[2], NULL, 10);

    read_plan(stdin);
    /* Processes that a container leaves behind become our children, so that we can wait for their end. */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        err(1, "prctl");
    int ends[2];

    /* Nothing reads before the end. The pipe has more space than a measured command's output. */
    if (pipe2(ends, O_CLOEXEC) < 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0 ||
        fcntl(ends[0], F_SETPIPE_SZ, 1 << 20) < 0)
        err(1, "make a pipe");
    complaints = ends[0];
    posix_spawn_file_actions_init(&streams);
    posix_spawn_file_actions_addopen(&streams, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&streams, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&streams, ends[1], STDERR_FILENO);
    posix_spawn_file_actions_init(&piped_streams);
    posix_spawn_file_actions_addopen(&piped_streams, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&piped_streams, piped_stdout, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&piped_streams, ends[1], STDERR_FILENO);
    for (long round = -warmup; round < rounds; round++)
        run_round(round >= 0);
    return 0;
}
