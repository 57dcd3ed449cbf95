/* The last steps of the child, of create and of exec. */
#include "container/finish.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/proc.h"
#include "container/hooks.h"
#include "container/init.h"
#include "container/plan.h"
#include "container/process.h"
#include "container/record.h"
#include "container/sync.h"
#include "container/warm_start.h"

/* Exit status of a process that could not execute its program: what shells use for "not found or not
 * executable". */
#define EXIT_NO_PROGRAM 127

/* Bytes: about what the deepest chain of calls of the runtime takes, of which most are paths. */
#define STACK_USED ((size_t)64 * 1024)

/* Whoever in the container may trace this process while it waits for start, a program of exec or of another
 * container in the same pid namespace, finds nothing in it that leads to the host. */
static void let_go_of_host(const struct init_context *c)
{
    const struct process_plan *process = &c->plan->process;
    /* The label of a hook is written to its own attributes, where a snapshot has kept them for later. */
    bool labels = c->plan->spec->hooks.start_container.count > 0 && process->warm != NULL &&
                  (process->selinux.label != NULL || process->apparmor.profile != NULL);
    const int keep[] = {c->sync, c->start_socket, labels ? proc_root(NULL) : -1};
    process_close_descriptors(process, keep, sizeof(keep) / sizeof(keep[0]));
}

/* Of a probe: from here on the runtime hears of system calls that look at something; this process makes none
 * of them before execve. */
static int be_observed(const struct init_context *c, struct error *err)
{
    const struct seccomp_plan *observer = &c->plan->process.observer;
    /* Else the runtime of a user could not take the listener. There is no other process in this container. */
    if (prctl(PR_SET_DUMPABLE, 1) < 0)
        return error_set(err, -errno, "let the runtime look at the probe");
    int ret = sync_send(c->sync, SYNC_LISTENER);
    if (ret < 0)
        return ret;
    ret = seccomp_install(observer, c->handover, err);
    if (ret != -EACCES)
        return ret;
    /* It has no capability that stands for it. A probe executes no program that would gain one. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_set(err, -errno, "set no_new_privs");
    return seccomp_install(observer, c->handover, err);
}

/* The end of create. */
static int become(const struct init_context *c, struct process_program *program, struct error *err)
{
    struct process_plan *process = &c->plan->process;
    int ret = c->plan->has_process ? process_become(process, c->copy, program, err) : 0;
    if (ret == 0 && process->warm != NULL)
        ret = warm_start_check(process, program->path, c->sync, err);
    let_go_of_host(c);
    if (ret == 0 && process->observer.filter != NULL)
        return be_observed(c, err);
    if (ret < 0 || !c->plan->has_process || !process_loads_early(process))
        return ret;
    ret = sync_send(c->sync, SYNC_LISTENER);
    return ret < 0 ? ret : process_confine(process, c->handover, err);
}

/* Wait until start says so; the descriptor to answer on, which closes itself at execve. */
static int wait_for_start(const struct init_context *c)
{
    struct error err = {0};
    /* A runtime that was killed before the container was on record: nobody knows of this process. */
    if (sync_expect(c->sync, SYNC_COMMIT, &err) < 0)
        _exit(1);
    if (c->start_socket < 0)
        return sync_expect(c->sync, SYNC_START, &err) == 0 ? c->sync : -1;
    for (;;) {
        int fd = RETRY(accept4(c->start_socket, NULL, NULL, SOCK_CLOEXEC));
        if (fd < 0)
            return -1;
        /* Somebody who only looked, or a start that was killed before it spoke: the next one may come. */
        if (sync_expect(fd, SYNC_START, &err) == 0) {
            close(c->start_socket);
            return fd;
        }
        close(fd);
    }
}

/* Hooks are programs of the container, as confined as its own. One that may trace this process, which holds
 * more until then, is not to find more than it has itself: `confined` says that this process came first. */
static int run_hooks(const struct init_context *c, pid_t own, int starter, bool *confined, struct error *err)
{
    struct process_plan *process = &c->plan->process;
    const struct spec_hook_list *hooks = &c->plan->spec->hooks.start_container;
    struct hook_run run = {.kind = "startContainer",
                           .status = "created",
                           .pid = own,
                           .environment = process->envp,
                           .labelled = process->selinux.label != NULL};
    if (hooks->count == 0)
        return 0;
    if (c->record->watched && !*confined) {
        process_close_descriptors(process, &starter, 1);
        int ret = process_confine(process, NULL, err);
        if (ret < 0)
            return ret;
        *confined = true;
    }
    run.confine = *confined ? NULL : process;
    if (process->warm != NULL)
        process->warm->checked = (struct timespec){0};
    return hooks_run(hooks, &run, c->record, err);
}

static int start_program(const struct init_context *c, const struct process_program *program, pid_t own,
                         int starter, struct error *err)
{
    struct plan *plan = c->plan;
    if (!plan->has_process)
        return error_text(err, -EINVAL, "process: config.json has none, so there is nothing to start");
    bool confined = process_loads_early(&plan->process);
    int ret = run_hooks(c, own, starter, &confined, err);
    process_close_descriptors(&plan->process, &starter, 1);
    if (ret < 0)
        return ret;
    return confined ? process_execute(&plan->process, program->path, err)
                    : process_start(&plan->process, NULL, program->path, starter, err);
}

_Noreturn void init_finish(const struct init_context *c, struct process_program *program)
{
    struct error err = {0};
    /* Later the runtime's /proc is not open any more. */
    pid_t own = c->plan->spec->hooks.start_container.count > 0 ? hooks_own_pid() : 0;
    if (become(c, program, &err) < 0) {
        sync_send_error(c->sync, &err);
        _exit(1);
    }
    if (sync_send(c->sync, SYNC_READY) < 0)
        _exit(1);
    int starter = wait_for_start(c);
    if (starter < 0)
        _exit(1);
    start_program(c, program, own, starter, &err);
    sync_send_error(starter, &err);
    _exit(EXIT_NO_PROGRAM);
}

/* A copy of arguments or variables that is all that is kept; never given back. NULL: no memory. */
static char **keep_strings(char *const *list)
{
    size_t count = 0, size = sizeof(*list);
    for (; list[count] != NULL; count++)
        size += sizeof(*list) + strlen(list[count]) + 1;
    char **copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return NULL;
    char *text = (char *)(copy + count + 1);
    for (size_t i = 0; i < count; i++) {
        copy[i] = text;
        text = stpcpy(text, list[i]) + 1;
    }
    return copy;
}

/* What the frames of functions that have returned left behind. */
static __attribute__((noinline)) void wipe_stack(void)
{
    char below[STACK_USED];
    explicit_bzero(below, sizeof(below));
}

/* Of configuration and record, paths of the host and hooks' variables among them, nothing is left. */
static int forget_plan(const struct exec_context *c, struct error *err)
{
    c->plan->argv = keep_strings(c->plan->argv);
    c->plan->envp = keep_strings(c->plan->envp);
    if (c->plan->argv == NULL || c->plan->envp == NULL)
        return error_set(err, -ENOMEM, "copy the arguments of the process");
    for (size_t i = 0; i < sizeof(c->arenas) / sizeof(c->arenas[0]); i++)
        if (c->arenas[i] != NULL)
            arena_wipe(c->arenas[i]);
    wipe_stack();
    return 0;
}

/* Under the container's filter, which allows what any program does that starts others. */
static int be_born(const struct exec_context *c, struct error *err)
{
    const int message = SYNC_BORN;
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PARENT, NULL, NULL, NULL, 0L);
    if (pid > 0)
        _exit(0);
    if (pid < 0)
        return error_set(err, -errno, "clone the process%s",
                         errno == EAGAIN || errno == ENOMEM
                             ? ""
                             : " (its filter must allow that in a container with CAP_SYS_PTRACE)");
    if (RETRY(write(c->sync, &message, sizeof(message))) < 0)
        return error_set(err, -errno, "send to the runtime");
    int word = 0;
    if (RETRY(read(c->sync, &word, sizeof(word))) != sizeof(word) || word != SYNC_GO)
        _exit(1);
    if (setsid() < 0)
        return error_set(err, -errno, "setsid");
    return c->plan->terminal.wanted ? terminal_control(err) : 0;
}

/* Who traces the process from its first instant on gets one that is as confined as its program. */
static int start_apart(const struct exec_context *c, const char *program, struct error *err)
{
    int ret = process_confine(c->plan, NULL, err);
    if (ret == 0)
        ret = forget_plan(c, err);
    if (ret == 0)
        ret = be_born(c, err);
    return ret < 0 ? ret : process_execute(c->plan, program, err);
}

static int finish(const struct exec_context *c, struct process_program *program, struct error *err)
{
    struct process_plan *plan = c->plan;
    int ret = process_become(plan, c->copy, program, err);
    if (ret == 0 && plan->warm != NULL)
        ret = warm_start_check(plan, program->path, c->sync, err);
    if (ret == 0)
        ret = sync_send(c->sync, process_loads_early(plan) ? SYNC_LISTENER : SYNC_READY);
    if (ret == 0)
        ret = sync_expect(c->sync, SYNC_GO, err);
    process_close_descriptors(plan, &c->sync, 1);
    if (ret < 0)
        return ret;
    return c->apart ? start_apart(c, program->path, err)
                    : process_start(plan, c->handover, program->path, c->sync, err);
}

_Noreturn void exec_finish(const struct exec_context *c, struct process_program *program)
{
    struct error err = {0};
    finish(c, program, &err);
    sync_send_error(c->sync, &err);
    _exit(EXIT_NO_PROGRAM);
}
