/* events: statistics at an interval and reports of OOM-killed processes, one JSON object per line, until the
 * container stops. The format is that of runc, which containerd reads. */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/json_out.h"
#include "cli/commands.h"
#include "cli/interval.h"
#include "cli/output.h"
#include "container/lifecycle.h"
#include "container/lookup.h"

struct events_values {
    bool stats;
    const char *interval;
};

static const struct option options[] = {
    {"stats", 0, OPTION_FLAG, offsetof(struct events_values, stats), NULL, "show the statistics once", NULL},
    {"interval", 0, OPTION_STRING, offsetof(struct events_values, interval), "TIME",
     "time between statistics: 5s (default), 500ms, 1m", NULL},
    {0},
};

struct watch {
    const struct invocation *invocation;
    const char *id;
    struct cgroup_ref cgroup;
    int init;       /* pidfd of the container's init */
    int memory;     /* inotify on the memory events, -1 without a memory controller */
    uint64_t kills; /* reported so far */
};

static int print_stats(const struct invocation *invocation, struct error *err)
{
    cleanup_json_out struct json_out *out = json_out_new(false);
    int ret = container_stats(invocation->runtime, invocation->args[0], out, err);
    return ret < 0 ? ret : output_json(out, err);
}

/* Report an event for each process that was killed since the last call. */
static int report_kills(struct watch *watch, struct error *err)
{
    uint64_t kills;
    if (watch->memory < 0 || cgroup_oom_kills(&watch->cgroup, &kills) < 0)
        return 0;
    for (; watch->kills < kills; watch->kills++) {
        cleanup_json_out struct json_out *out = json_out_new(false);
        json_out_map_open(out);
        json_out_pair_string(out, "type", "oom");
        json_out_pair_string(out, "id", watch->id);
        json_out_map_close(out);
        int ret = output_json(out, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static bool has_stopped(const struct watch *watch)
{
    struct pollfd init = {.fd = watch->init, .events = POLLIN};
    return poll(&init, 1, 0) > 0;
}

static int64_t events_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Discard the events, because the counter is read anyway. */
static void drain(int inotify)
{
    char buffer[16 * sizeof(struct inotify_event)];
    (void)!RETRY(read(inotify, buffer, sizeof(buffer)));
}

static int events_follow(struct watch *watch, int interval, struct error *err)
{
    struct pollfd fds[] = {{.fd = watch->init, .events = POLLIN}, {.fd = watch->memory, .events = POLLIN}};
    int64_t next = events_now_ms() + interval;
    for (;;) {
        int64_t rest = next - events_now_ms();
        if (rest <= 0) {
            int ret = print_stats(watch->invocation, err);
            if (ret < 0)
                return has_stopped(watch) ? 0 : ret;
            next += interval;
            continue;
        }
        if (poll(fds, 2, (int)rest) < 0) {
            if (errno == EINTR)
                continue;
            return error_set(err, -errno, "wait for events");
        }
        if (fds[1].revents != 0)
            drain(watch->memory);
        int ret = report_kills(watch, err);
        if (ret < 0 || fds[0].revents != 0)
            return ret;
    }
}

static int events_run(struct invocation *invocation, void *values, struct error *err)
{
    const struct events_values *events = values;
    int interval = interval_parse(events->interval != NULL ? events->interval : "5s");
    if (interval < 0)
        return error_text(err, interval, "invalid argument '%s' for --interval: expected a time such as 5s",
                          events->interval);
    if (events->stats)
        return print_stats(invocation, err);

    cleanup_fd int dirfd = -1;
    struct record record;
    int ret = container_open_record(invocation->arena, invocation->runtime, invocation->args[0], &dirfd,
                                    &record, err);
    if (ret < 0)
        return ret;
    cleanup_fd int init = record_pidfd(&record);
    if (init < 0)
        return error_text(err, -ESRCH, "container not running");
    struct watch watch = {
        .invocation = invocation, .id = invocation->args[0], .cgroup = record.cgroup, .init = init};
    cleanup_fd int memory = cgroup_oom_watch(&watch.cgroup, NULL);
    watch.memory = memory;
    if (memory >= 0)
        (void)cgroup_oom_kills(&watch.cgroup, &watch.kills);
    return events_follow(&watch, interval, err);
}

const struct command command_events = {
    .name = "events",
    .arguments = "ID",
    .summary = "report statistics and OOM kills until the container stops",
    .options = options,
    .values_size = sizeof(struct events_values),
    .min_args = 1,
    .max_args = 1,
    .run = events_run,
};
