/* exec: run another process in a running container, from a process object or from options. */
#include <errno.h>
#include <limits.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/exec_process.h"
#include "cli/input.h"
#include "cli/listen_fds.h"
#include "prewarm/commands.h"
#include "spec/spec.h"

struct exec_values {
    struct exec_options exec;
    struct exec_process_options process;
    const char *process_file;
};

#define EXEC(field)    offsetof(struct exec_values, exec.field)
#define PROCESS(field) offsetof(struct exec_values, process.field)
static const struct option exec_table[] = {
    {"process", 'p', OPTION_STRING, offsetof(struct exec_values, process_file), "FILE",
     "file with a process object, instead of a program and its options", NULL},
    {"detach", 'd', OPTION_FLAG, EXEC(detach), NULL, "return when the program has started", NULL},
    {"pid-file", 0, OPTION_STRING, EXEC(pid_file), "FILE", "write the process id to this file", NULL},
    {"console-socket", 0, OPTION_STRING, EXEC(console_socket), "SOCKET",
     "send the terminal's descriptor to this AF_UNIX socket", NULL},
    {"pidfd-socket", 0, OPTION_STRING, EXEC(pidfd_socket), "SOCKET",
     "send a pidfd of the process to this AF_UNIX socket", NULL},
    {"preserve-fds", 0, OPTION_COUNT, EXEC(preserve_fds), "N",
     "pass on N descriptors after 0, 1, 2 and those of $LISTEN_FDS", NULL},
    {"cgroup", 0, OPTION_STRING, EXEC(cgroup), "PATH", "run in a cgroup below the container's", NULL},
    {"ignore-paused", 0, OPTION_FLAG, EXEC(ignore_paused), NULL, "do not fail if the container is paused",
     NULL},
    {"tty", 't', OPTION_FLAG, PROCESS(tty), NULL, "allocate a terminal", NULL},
    {"user", 'u', OPTION_STRING, PROCESS(user), "UID[:GID]", "user and group, by number", NULL},
    {"additional-gids", 'g', OPTION_LIST, PROCESS(additional_gids), "GID", "additional group, by number",
     NULL},
    {"env", 'e', OPTION_LIST, PROCESS(env), "NAME=VALUE", "set an environment variable", NULL},
    {"cwd", 0, OPTION_STRING, PROCESS(cwd), "DIR", "working directory in the container", NULL},
    {"cap", 'c', OPTION_LIST, PROCESS(caps), "CAP", "add a capability", NULL},
    {"no-new-privs", 0, OPTION_FLAG, PROCESS(no_new_privs), NULL, "set no_new_privs", NULL},
    {"process-label", 0, OPTION_STRING, PROCESS(process_label), "LABEL", "SELinux label of the process",
     NULL},
    {"apparmor", 0, OPTION_STRING, PROCESS(apparmor), "PROFILE", "AppArmor profile of the process", NULL},
    {0},
};

static bool exec_any_given(const struct exec_process_options *options)
{
    return options->no_new_privs || options->user != NULL || options->cwd != NULL ||
           options->process_label != NULL || options->apparmor != NULL || options->env.count > 0 ||
           options->caps.count > 0 || options->additional_gids.count > 0;
}

/* The process object is complete, so other options would contradict it. Only --tty is allowed with it,
 * because conmon passes both. */
static int use_process_file(const struct invocation *invocation, struct exec_values *values,
                            struct error *err)
{
    if (invocation->count > 1 || exec_any_given(&values->process))
        return error_text(err, -EINVAL,
                          "--process excludes a program and its options: remove them, or --process");
    char *text = NULL;
    size_t size = 0;
    int ret = input_read(invocation->arena, "process", values->process_file, &text, &size, err);
    if (ret < 0)
        return ret;
    ret = spec_parse_process(invocation->arena, text, size, &values->exec.process, err);
    if (ret < 0)
        return error_wrap(err, "process file '%s'", values->process_file);
    values->exec.process->terminal |= values->process.tty;
    return 0;
}

static int use_options(const struct invocation *invocation, struct exec_values *values, struct error *err)
{
    if (invocation->count < 2)
        return error_text(err, -EINVAL, "no program to run: name a program, or use --process FILE");
    int ret = exec_default_process(invocation->arena, invocation->runtime, values->exec.id,
                                   &values->exec.process, err);
    if (ret < 0)
        return ret;
    struct spec_process *process = values->exec.process;
    process->args.count = (size_t)invocation->count - 1;
    process->args.items = ARENA_ARRAY(invocation->arena, process->args.count, const char *);
    for (size_t i = 0; i < process->args.count; i++)
        process->args.items[i] = invocation->args[i + 1];
    return exec_process_apply(invocation->arena, &values->process, process, err);
}

static int exec_command_run(struct invocation *invocation, void *values, struct error *err)
{
    struct exec_values *exec = values;
    exec->exec.id = invocation->args[0];
    exec->exec.arena = invocation->arena;
    exec->exec.listen_fds = listen_fds_count();
    exec->exec.preserve_fds += exec->exec.listen_fds;
    int ret = exec->process_file != NULL ? use_process_file(invocation, exec, err)
                                         : use_options(invocation, exec, err);
    if (ret < 0)
        return ret;
    return prewarm_exec(invocation->runtime, &exec->exec, &invocation->exit_code, err);
}

const struct command command_exec = {
    .name = "exec",
    .arguments = "ID [PROGRAM [ARGUMENT...]]",
    .summary = "run one more program in a running container",
    .options = exec_table,
    .values_size = sizeof(struct exec_values),
    .min_args = 1,
    .max_args = COMMAND_ANY_ARGS,
    /* As with runc and ssh. A program may well exit with 1. */
    .error_code = 255,
    .program_follows = true,
    .run = exec_command_run,
};
