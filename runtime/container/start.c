/* start: tell the waiting init to go on, receive the result, run the poststart hooks. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sys.h"
#include "cgroup/cgroup.h"
#include "container/delete.h"
#include "container/hooks.h"
#include "container/lifecycle.h"
#include "container/lookup.h"
#include "container/record_copies.h"
#include "container/start.h"
#include "container/sync.h"
#include "sandbox/terminal.h"
#include "spec/annotations.h"

static int connect_init(int dir, const struct record *record, struct error *err)
{
    cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_set(err, -errno, "make a socket");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" RECORD_START_SOCKET, dir);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return fd_steal(&fd);
    if (errno != ENOENT && errno != ECONNREFUSED)
        return error_set(err, -errno, "reach the process of container '%s'", record->id);
    return error_text(err, -EINVAL, "cannot start container '%s': it is %s, not created", record->id,
                      status_name(record_status(dir, record)));
}

int start_program(int channel, struct error *err)
{
    const struct winsize size = terminal_callers_size();
    int ret = sync_send_start(channel, &size);
    if (ret < 0)
        return error_text(err, ret, "the container's first process has ended");
    int answer;
    while ((answer = sync_receive(channel, err)) == SYNC_COLD)
        log_debug("cold start: %s", err->text);
    if (answer == SYNC_END)
        return 0; /* executed: execve closed the descriptor */
    return answer == SYNC_ERROR ? err->code : error_text(err, -EPROTO, "unexpected message %d", answer);
}

int start_run_hooks(int dir, const struct record *record, struct error *err)
{
    if (!record->has_poststart)
        return 0;
    cleanup_arena struct arena a = {0};
    struct spec *spec;
    int ret = saved_spec(&a, dir, record, &spec, err);
    if (ret == 0) {
        struct hook_run run = {
            .kind = "poststart", .status = "running", .pid = record->pid, .cwd = record->bundle};
        ret = hooks_run(&spec->hooks.poststart, &run, record, err);
    }
    /* Since runtime-spec 1.3 a failed poststart hook stops the container. The hook's error matters more. */
    if (ret < 0) {
        struct error ignored = {0};
        (void)delete_kill_init(record, &ignored);
    }
    return ret;
}

int container_start(const struct runtime_options *rt, const char *id, struct error *err)
{
    cleanup_arena struct arena a = {0};
    struct record record;
    cleanup_fd int dir = -1;
    int ret = container_open_record(&a, rt, id, &dir, &record, err);
    if (ret < 0)
        return ret;
    annotations_warn_unknown(&record.annotations);
    if (cgroup_frozen(&record.cgroup) > 0 && record_status(dir, &record) == STATUS_PAUSED)
        return error_text(err, -EBUSY, "cannot start container '%s': it is paused", id);
    cleanup_fd int channel = connect_init(dir, &record, err);
    if (channel < 0)
        return channel;
    /* The socket marks the container as created, so a second start must not find it. Under its new name it
     * tells exec that the first process is not the program yet. */
    if (renameat(dir, RECORD_START_SOCKET, dir, RECORD_STARTING) < 0)
        return error_text(err, -EINVAL, "cannot start container '%s': another process is starting it", id);
    log_step("reach first process", id);
    ret = start_program(channel, err);
    if (ret < 0)
        return ret;
    log_step("start program", id);
    (void)unlinkat(dir, RECORD_STARTING, 0);
    ret = start_run_hooks(dir, &record, err);
    log_step("run poststart hooks", id);
    return ret;
}
