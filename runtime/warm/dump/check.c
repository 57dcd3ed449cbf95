/* Refuse what a process may not have when it is saved, examined from outside: proc(5), getitimer(2). */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "warm/dump/state.h"
#include "warm/dump/text.h"
#include "warm/dump/tracee.h"

static int check_status(struct tracee *t, struct arena *a, bool alone, struct error *err)
{
    char *status;
    int ret = tracee_file(t, a, "status", &status, NULL, err);
    if (ret < 0)
        return ret;
    unsigned long threads;
    bool pending;
    if (!dump_text_threads(status, &threads, &pending))
        return error_text(err, -EINVAL, "read '/proc/%d/status': threads or signals are missing",
                          (int)t->pid);
    if (alone && threads != 1)
        return error_text(err, -ENOTSUP, "there are %lu threads", threads);
    if (pending)
        return error_text(err, -ENOTSUP, "a signal is pending");
    return 0;
}

/* Check that a file of /proc/PID is empty. */
static int check_empty(struct tracee *t, struct arena *a, const char *name, const char *what,
                       struct error *err)
{
    char *text;
    size_t size;
    int ret = tracee_file(t, a, name, &text, &size, err);
    if (ret < 0)
        return ret;
    return size == 0 ? 0 : error_text(err, -ENOTSUP, "there is %s", what);
}

static int check_interval_timers(struct tracee *t, struct error *err)
{
    static const int which[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
    for (size_t i = 0; i < sizeof(which) / sizeof(*which); i++) {
        uint64_t arguments[6] = {(uint64_t)which[i], tracee_scratch(t)};
        long result;
        int ret = tracee_call(t, SYS_getitimer, arguments, &result, err);
        if (ret < 0)
            return ret;
        struct itimerval value = {0};
        if (result == 0)
            ret = tracee_read(t, tracee_scratch(t), &value, sizeof(value), err);
        if (ret < 0)
            return ret;
        if (result != 0)
            return error_set(err, (int)result, "getitimer in process %d", (int)t->pid);
        if (value.it_value.tv_sec != 0 || value.it_value.tv_usec != 0)
            return error_text(err, -ENOTSUP, "a timer runs (setitimer, alarm)");
    }
    return 0;
}

int dump_state_check(struct tracee *t, struct arena *a, bool alone, struct error *err)
{
    int ret = check_status(t, a, alone, err);
    if (ret < 0)
        return ret;
    ret = check_empty(t, a, arena_printf(a, "task/%d/children", (int)t->pid), "a child process", err);
    if (ret < 0)
        return ret;
    ret = check_empty(t, a, "timers", "a timer (timer_create)", err);
    if (ret < 0)
        return ret;
    return alone ? check_interval_timers(t, err) : 0;
}
