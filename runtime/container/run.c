/* run: create and start in one, and in the foreground stay with the program to its end. */
#include <errno.h>
#include <sys/prctl.h>

#include "base/error.h"
#include "base/fd.h"
#include "container/create.h"
#include "container/delete.h"
#include "container/lifecycle.h"
#include "container/start.h"
#include "container/wait.h"

/* What is left for the runtime once the program runs. */
static int attend(struct creation *c, int *master, struct error *err)
{
    int ret = 0;
    if (c->plan.process.terminal.relay_socket >= 0)
        ret = *master = terminal_receive_master(c->plan.process.terminal.relay_socket, err);
    return ret < 0 ? ret : start_run_hooks(c->dir, &c->record, err);
}

int container_run(const struct runtime_options *rt, const struct create_options *options, int *exit_code,
                  struct error *err)
{
    struct creation c;
    struct wait_signals signals = WAIT_SIGNALS_NONE;
    cleanup_fd int master = -1;
    *exit_code = 0;
    if (!options->detach) {
        wait_block_signals(&signals);
        if (!options->no_subreaper)
            prctl(PR_SET_CHILD_SUBREAPER, 1);
    }
    int ret = creation_make(rt, options, CREATION_RUNS, &c, err);
    if (ret < 0) {
        wait_restore_signals(&signals);
        return ret;
    }
    ret = attend(&c, &master, err);
    if (ret == 0 && !options->detach)
        ret = wait_for_process(c.record.pid, c.pidfd, master, exit_code, err);
    wait_restore_signals(&signals);
    /* The container goes with its program; after a failure in any case. */
    if (ret < 0 || (!options->detach && !options->keep)) {
        struct error later = {0};
        int removed = record_lock(c.dir, c.record.id, &later);
        if (removed == 0)
            removed = delete_recorded(c.root, c.dir, &c.record, &later);
        else if (removed == -ENOENT)
            removed = 0; /* somebody was faster */
        if (removed < 0 && ret == 0) {
            *err = later;
            ret = removed;
        }
    }
    creation_release(&c);
    return ret;
}
