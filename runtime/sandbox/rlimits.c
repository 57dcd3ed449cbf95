/* Set resource limits: setrlimit(2). */
#include "sandbox/rlimits.h"

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json_out.h"
#include "sandbox/names.h"
#include "spec/spec.h"

/* The kernel has no more process numbers: PID_MAX_LIMIT. */
#define MAX_PROCESSES (1U << 22)

static const struct name_value types[] = {
    {"RLIMIT_AS", RLIMIT_AS},
    {"RLIMIT_CORE", RLIMIT_CORE},
    {"RLIMIT_CPU", RLIMIT_CPU},
    {"RLIMIT_DATA", RLIMIT_DATA},
    {"RLIMIT_FSIZE", RLIMIT_FSIZE},
    {"RLIMIT_LOCKS", RLIMIT_LOCKS},
    {"RLIMIT_MEMLOCK", RLIMIT_MEMLOCK},
    {"RLIMIT_MSGQUEUE", RLIMIT_MSGQUEUE},
    {"RLIMIT_NICE", RLIMIT_NICE},
    {"RLIMIT_NOFILE", RLIMIT_NOFILE},
    {"RLIMIT_NPROC", RLIMIT_NPROC},
    {"RLIMIT_RSS", RLIMIT_RSS},
    {"RLIMIT_RTPRIO", RLIMIT_RTPRIO},
    {"RLIMIT_RTTIME", RLIMIT_RTTIME},
    {"RLIMIT_SIGPENDING", RLIMIT_SIGPENDING},
    {"RLIMIT_STACK", RLIMIT_STACK},
    {NULL, 0},
};

int rlimits_plan(struct arena *a, const struct spec_rlimits *rlimits, struct rlimits_plan *out,
                 struct error *err)
{
    *out = (struct rlimits_plan){0};
    if (rlimits->count == 0)
        return 0;
    out->items = ARENA_ARRAY(a, rlimits->count, struct rlimits_item);
    for (size_t i = 0; i < rlimits->count; i++) {
        const struct spec_rlimit *from = &rlimits->items[i];
        const struct name_value *type = names_find(types, from->type);
        if (type == NULL)
            return error_set(err, -EINVAL, "process.rlimits[%zu].type: unknown limit '%s'", i, from->type);
        for (size_t j = 0; j < i; j++)
            if (out->items[j].resource == (int)type->value)
                return error_set(err, -EINVAL, "process.rlimits[%zu].type: '%s' is given twice", i,
                                 from->type);
        if (from->soft > from->hard)
            return error_set(err, -EINVAL, "process.rlimits[%zu]: soft limit %llu is above hard limit %llu",
                             i, (unsigned long long)from->soft, (unsigned long long)from->hard);
        out->items[i] = (struct rlimits_item){
            .name = type->name,
            .resource = (int)type->value,
            .limit = {.rlim_cur = (rlim_t)from->soft, .rlim_max = (rlim_t)from->hard},
        };
    }
    out->count = rlimits->count;
    return 0;
}

#define AMOUNT_SIZE 24

static const char *amount(rlim_t value, char text[static AMOUNT_SIZE])
{
    if (value == RLIM_INFINITY)
        return "unlimited";
    snprintf(text, AMOUNT_SIZE, "%llu", (unsigned long long)value);
    return text;
}

static int explain(const struct rlimits_item *item, int code, struct error *err)
{
    struct rlimit now;
    char text[3][AMOUNT_SIZE];
    const char *soft = amount(item->limit.rlim_cur, text[0]), *hard = amount(item->limit.rlim_max, text[1]);
    if (code != -EPERM || prlimit(0, item->resource, NULL, &now) < 0)
        return error_set(err, code, "set %s to %s:%s", item->name, soft, hard);
    /* A privileged process gets EPERM, too: for RLIMIT_NOFILE above the sysctl fs.nr_open. */
    return error_text(err, code,
                      "set %s to %s:%s: not permitted, the runtime's own hard limit is %s: ask for less "
                      "(--ulimit, default_ulimits in containers.conf) or raise the limit",
                      item->name, soft, hard, amount(now.rlim_max, text[2]));
}

int rlimits_raise(const struct rlimits_plan *plan, struct error *err)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct rlimits_item *item = &plan->items[i];
        struct rlimit limit;
        if (prlimit(0, item->resource, NULL, &limit) < 0)
            return error_set(err, -errno, "read %s", item->name);
        if (item->limit.rlim_max <= limit.rlim_max)
            continue;
        limit.rlim_max = item->limit.rlim_max;
        if (prlimit(0, item->resource, &limit, NULL) < 0)
            return explain(item, -errno, err);
    }
    return 0;
}

int rlimits_apply(const struct rlimits_plan *plan, struct error *err)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct rlimits_item *item = &plan->items[i];
        if (prlimit(0, item->resource, &item->limit, NULL) < 0)
            return explain(item, -errno, err);
    }
    return 0;
}

/* Return 1 if the caller may have one more process with this limit, 0 if not, or a negative errno. */
static int allows_process(rlim_t limit, rlim_t hard)
{
    if (prlimit(0, RLIMIT_NPROC, &(struct rlimit){limit, hard}, NULL) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    if (pid < 0)
        return errno == EAGAIN ? 0 : -errno;
    RETRY(waitpid(pid, NULL, 0));
    return 1;
}

/* Set *lowest to the lowest limit with which the caller may have one more process, or to 0 if there is none.
 */
static int find_lowest(rlim_t hard, rlim_t *lowest)
{
    rlim_t below = 0, above = hard < 1 ? hard : 1;
    int ret;
    *lowest = 0;
    while ((ret = allows_process(above, hard)) == 0 && above < hard && above < MAX_PROCESSES) {
        below = above;
        above = above < hard / 2 ? 2 * above : hard;
    }
    if (ret <= 0)
        return ret;
    while (above - below > 1) {
        rlim_t middle = below + (above - below) / 2;
        ret = allows_process(middle, hard);
        if (ret < 0)
            return ret;
        *(ret > 0 ? &above : &below) = middle;
    }
    *lowest = above;
    return 0;
}

int rlimits_count_from_now(struct rlimits_plan *plan, struct error *err)
{
    for (size_t i = 0; i < plan->count; i++) {
        struct rlimits_item *item = &plan->items[i];
        struct rlimit before;
        rlim_t lowest;
        if (item->resource != RLIMIT_NPROC || item->limit.rlim_cur == RLIM_INFINITY)
            continue;
        if (prlimit(0, RLIMIT_NPROC, NULL, &before) < 0)
            return error_set(err, -errno, "getrlimit RLIMIT_NPROC");
        int ret = find_lowest(before.rlim_max, &lowest);
        if (prlimit(0, RLIMIT_NPROC, &before, NULL) < 0 && ret == 0)
            ret = -errno;
        if (ret < 0)
            return error_set(err, ret, "count the processes of the user");
        /* The caller is counted already, and it is the first one of the plan. */
        rlim_t others = lowest > 2 ? lowest - 2 : 0;
        rlim_t *limits[] = {&item->limit.rlim_cur, &item->limit.rlim_max};
        for (size_t j = 0; j < 2; j++)
            *limits[j] = *limits[j] < before.rlim_max - others ? *limits[j] + others : before.rlim_max;
    }
    return 0;
}

void rlimits_describe(const struct rlimits_plan *plan, struct json_out *out)
{
    json_out_array_open(out);
    for (size_t i = 0; i < plan->count; i++) {
        json_out_map_open(out);
        json_out_pair_string(out, "type", plan->items[i].name);
        json_out_pair_u64(out, "soft", plan->items[i].limit.rlim_cur);
        json_out_pair_u64(out, "hard", plan->items[i].limit.rlim_max);
        json_out_map_close(out);
    }
    json_out_array_close(out);
}
