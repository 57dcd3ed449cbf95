/* The last steps of a child, for create and for exec. */
#include "container/child/finish.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/proc.h"
#include "container/child/first.h"
#include "container/child/late_clone.h"
#include "container/execve.h"
#include "container/hooks.h"
#include "container/launch.h"
#include "container/plan.h"
#include "container/process.h"
#include "container/record.h"
#include "container/sync.h"
#include "sandbox/terminal.h"

/* The exit status of a process that could not execute its program. Shells use it for "not found". */
#define EXIT_NO_PROGRAM 127

/* Return the descriptor of /proc if a process that is cloned from this one needs it to write its label, or
 * -1. */
static int labels_root(const struct process_plan *process)
{
    return process_labels_open(process) ? proc_root(NULL) : -1;
}

/* While it waits for start, init holds no descriptor that refers to the host. A program of exec may be able
 * to trace init, and so may another container in the same pid namespace. */
static void let_go_of_host(const struct init_context *c)
{
    const struct process_plan *process = &c->plan->process;
    const bool clones = c->plan->spec->hooks.start_container.count > 0 || process->first.wanted;
    const int keep[] = {c->sync, c->start_socket, clones ? labels_root(process) : -1, process->first.program,
                        process->first.report};
    process_close_descriptors(process, keep, sizeof(keep) / sizeof(keep[0]));
}

/* Let the runtime see the files as the program sees them. */
static int give_root(int sync, struct error *err)
{
    cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int ret = root < 0 ? -errno : sync_send_root(sync, root);
    return ret < 0 ? error_set(err, ret, "give the runtime the container's root") : 0;
}

/* The last steps of create. */
static int finish_become(const struct init_context *c, struct process_program *program, struct error *err)
{
    struct process_plan *process = &c->plan->process;
    if (!c->plan->has_process) {
        let_go_of_host(c);
        return 0;
    }
    int ret = process_become(process, c->copy, program, err);
    if (ret < 0)
        return ret;
    ret = c->compared ? give_root(c->sync, err) : 0;
    if (ret < 0)
        return ret;
    ret = launch_check(process->launch, process, program->path, c->sync, err);
    if (ret < 0)
        return ret;
    let_go_of_host(c);
    return launch_arm(process->launch, process, c->handover, c->sync, err);
}

/* Wait for start. Return the descriptor to answer on, which execve closes, or a negative number. */
static int wait_for_start(const struct init_context *c)
{
    struct error err = {0};
    if (c->record->executes)
        return sync_expect(c->sync, SYNC_START, &err) == 0 ? c->sync : -1;
    /* If this fails, the runtime was killed before the container was on record. No command can reach this
     * process. */
    if (sync_expect(c->sync, SYNC_COMMIT, &err) < 0)
        _exit(1);
    if (c->start_socket < 0)
        return sync_expect(c->sync, SYNC_START, &err) == 0 ? c->sync : -1;
    for (;;) {
        struct winsize size;
        int fd = RETRY(accept4(c->start_socket, NULL, NULL, SOCK_CLOEXEC));
        if (fd < 0)
            return -1;
        /* Another program connected, or a start was killed before it sent anything. Wait for the next one. */
        if (sync_expect_start(fd, &size, &err) == 0) {
            const struct process_plan *process = &c->plan->process;
            close(c->start_socket);
            /* A filter that is in force already may not allow it. */
            if (c->plan->has_process && process->terminal.wanted && !process_loads_early(process))
                terminal_give_size(&size);
            return fd;
        }
        close(fd);
    }
}

/* Run the startContainer hooks. They are programs of the image, and as confined as the container's program.
 * If they can trace this process, it confines itself first, so that they gain nothing. Then *confined is
 * true. */
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
    if (c->record->traceable && !*confined) {
        process_close_descriptors(process, &starter, 1);
        int ret = process_confine(process, NULL, err);
        if (ret < 0)
            return ret;
        *confined = true;
    }
    run.confine = *confined ? NULL : process;
    launch_distrust(process->launch);
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
    const int keep[] = {starter, plan->process.first.program, plan->process.first.report,
                        plan->process.first.wanted ? labels_root(&plan->process) : -1};
    process_close_descriptors(&plan->process, keep, sizeof(keep) / sizeof(keep[0]));
    if (ret < 0)
        return ret;
    if (plan->process.first.wanted)
        return first_enter_program(&plan->process, program->path, starter, err);
    return confined ? process_execute(&plan->process, program->path, err)
                    : launch_enter(&plan->process, NULL, program->path, starter, err);
}

_Noreturn void init_finish(const struct init_context *c, struct process_program *program)
{
    struct error err = {0};
    /* Ask now, because the runtime's /proc is closed later. */
    pid_t own = c->plan->spec->hooks.start_container.count > 0 ? hooks_own_pid() : 0;
    if (finish_become(c, program, &err) < 0) {
        sync_send_error(c->sync, &err);
        _exit(1);
    }
    if (!c->record->executes && sync_send(c->sync, SYNC_READY) < 0)
        _exit(1);
    int starter = wait_for_start(c);
    if (starter < 0)
        _exit(1);
    start_program(c, program, own, starter, &err);
    sync_send_error(starter, &err);
    _exit(EXIT_NO_PROGRAM);
}

static int finish(const struct exec_context *c, struct process_program *program, struct error *err)
{
    struct process_plan *plan = c->plan;
    int ret = process_become(plan, c->copy, program, err);
    if (ret < 0)
        return ret;
    ret = launch_check(plan->launch, plan, program->path, c->sync, err);
    if (ret < 0)
        return ret;
    ret = sync_send(c->sync, process_loads_early(plan) ? SYNC_LISTENER : SYNC_READY);
    if (ret < 0)
        return ret;
    ret = sync_expect(c->sync, SYNC_PROCEED, err);
    process_close_descriptors(plan, &c->sync, 1);
    if (ret < 0)
        return ret;
    if (!c->late)
        return launch_enter(plan, c->handover, program->path, c->sync, err);
    const struct late_clone clone = {.plan = plan,
                                     .sync = c->sync,
                                     .arenas = c->arenas,
                                     .arena_count = sizeof(c->arenas) / sizeof(c->arenas[0])};
    return late_clone_start(&clone, program->path, err);
}

_Noreturn void exec_finish(const struct exec_context *c, struct process_program *program)
{
    struct error err = {0};
    finish(c, program, &err);
    sync_send_error(c->sync, &err);
    _exit(EXIT_NO_PROGRAM);
}
