/* Resource limits of the process: setrlimit(2), runtime-spec process.rlimits. */
#ifndef PYSBX_SANDBOX_RLIMITS_H
#define PYSBX_SANDBOX_RLIMITS_H

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

/* -EINVAL, by JSON path, for an unknown type, a type given twice or a soft limit above the hard one. */
int rlimits_plan(struct arena *a, const struct spec_rlimits *rlimits, struct rlimits_plan *out,
                 struct error *err);

/* Runtime, before it clones a process for another user namespace: lift its own hard limits where the process
 * is to have higher ones, for raising needs CAP_SYS_RESOURCE in the initial user namespace. */
int rlimits_raise(const struct rlimits_plan *plan, struct error *err);

/* Child, while still privileged but late: a small limit would stop the set-up itself. One call a limit. A
 * refusal names the limit, the value and the present maximum. */
int rlimits_apply(const struct rlimits_plan *plan, struct error *err);

/* An array of {type, soft, hard}. */
void rlimits_describe(const struct rlimits_plan *plan, struct json_out *out);

#endif
