/* Resource limits of the process: setrlimit(2), runtime-spec process.rlimits. */
#pragma once

#include <stddef.h>
#include <sys/resource.h>

struct arena;
struct error;
struct json_out;
struct spec_rlimits;

struct rlimits_plan {
    struct rlimits_item {
        const char *name; /* "RLIMIT_NOFILE" */
        int resource;
        struct rlimit limit;
    } * items;
    size_t count;
};

/* Plan the limits. Return 0, or -EINVAL with the JSON path for an unknown type, a type given twice, or a soft
 * limit above the hard one. */
int rlimits_plan(struct arena *a, const struct spec_rlimits *rlimits, struct rlimits_plan *out,
                 struct error *err);

/* Runtime, before it clones a process for another user namespace: raise its own hard limits where the process
 * gets higher ones. Raising needs CAP_SYS_RESOURCE in the initial user namespace. Return 0 or a negative
 * errno. */
int rlimits_raise(const struct rlimits_plan *plan, struct error *err);

/* Child, while privileged but late, because a small limit would stop the set-up itself: set each limit. An
 * error names the limit, the value and the present maximum. Return 0 or a negative errno. */
int rlimits_apply(const struct rlimits_plan *plan, struct error *err);

/* Child of one thread, before rlimits_apply: let RLIMIT_NPROC count from now. The kernel counts the processes
 * and threads of the user in all pid namespaces, and no file tells their number. So this finds the lowest
 * limit with which a clone succeeds, and adds what is below it to the planned limits, up to the present hard
 * limit. Without such a limit the plan stays. Return 0 or a negative errno. */
int rlimits_count_from_now(struct rlimits_plan *plan, struct error *err);

/* Write an array of {type, soft, hard}. */
void rlimits_describe(const struct rlimits_plan *plan, struct json_out *out);
