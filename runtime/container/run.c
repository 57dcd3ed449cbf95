/* The foreground of run. */
#include "container/run.h"

#include <errno.h>
#include <sys/prctl.h>

#include "base/error.h"
#include "base/fd.h"
#include "cgroup/cgroup.h"
#include "container/delete.h"
#include "container/launch.h"
#include "container/start.h"
#include "container/status_file.h"

/* Receive the terminal and run the poststart hooks. */
static int run_attend(struct creation *c, int *master, struct error *err)
{
    int ret = 0;
    if (c->plan.process.terminal.relay_socket >= 0)
        ret = *master = terminal_receive_master(c->plan.process.terminal.relay_socket, err);
    return ret < 0 ? ret : start_run_hooks(c->dir, &c->record, err);
}

/* Delete the container. Another process may have deleted it meanwhile. */
static int run_remove_container(struct creation *c, struct error *err)
{
    int ret = record_lock(c->dir, c->record.id, err);
    if (ret == -ENOENT)
        return 0;
    return ret < 0 ? ret : delete_recorded(c->root, c->dir, &c->record, err);
}

/* Return whether the program is what a start would make now. A frozen program would never
 * answer. */
static bool is_usable(void *arg)
{
    struct creation *c = arg;
    struct error reason = {0};
    const struct launch *launch = c->plan.process.launch;
    int ret = launch_compare(launch, c->inside, &reason);
    if (ret == -ESTALE)
        launch_refused(launch, &reason);
    fd_close(&c->inside);
    return ret == 0 && cgroup_frozen(&c->record.cgroup) <= 0;
}

/* Wait for the program, and report its end before the cgroup is removed, which counts OOM-killed processes.
 */
static int wait_for_end(struct creation *c, const struct create_options *options, int master, int *exit_code,
                        struct error *err)
{
    int status;
    const unsigned socket = options->compare_fd != 0 ? options->compare_fd : options->snapshot_fd;
    struct wait_question question = {socket != 0 ? (int)socket : -1,
                                     options->compare_fd != 0 ? is_usable : NULL, c};
    int ret = wait_for_process(c->record.pid, c->pidfd, master, &question, &status, err);
    if (ret < 0)
        return ret;
    status = first_status(&c->plan.process.first, status);
    *exit_code = wait_exit_code(status);
    return c->status_file >= 0 ? status_file_write(c->status_file, status, &c->record.cgroup, err) : 0;
}

void run_begin(const struct create_options *options, struct wait_signals *signals)
{
    if (options->detach)
        return;
    wait_block_signals(signals);
    if (!options->no_subreaper)
        prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int run_finish(struct creation *c, const struct create_options *options, struct wait_signals *signals,
               int *exit_code, struct error *err)
{
    cleanup_fd int master = -1;
    int ret = run_attend(c, &master, err);
    if (ret == 0 && !options->detach)
        ret = wait_for_end(c, options, master, exit_code, err);
    wait_restore_signals(signals);
    if (ret == 0 && (options->detach || options->keep))
        return 0;
    struct error later = {0};
    int removed = run_remove_container(c, &later);
    if (removed == 0 || ret < 0)
        return ret;
    *err = later;
    return removed;
}
