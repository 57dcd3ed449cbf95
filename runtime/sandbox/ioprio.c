/* Set the I/O scheduling class and priority. */
#include "sandbox/ioprio.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json_out.h"
#include "sandbox/names.h"
#include "spec/spec.h"

/* Kernel headers have linux/ioprio.h only since Linux 5.15. */
enum { CLASS_RT = 1, CLASS_BE = 2, CLASS_IDLE = 3, CLASS_SHIFT = 13, WHO_PROCESS = 1, LEVELS = 8 };

static const struct name_value classes[] = {
    {"IOPRIO_CLASS_RT", CLASS_RT},
    {"IOPRIO_CLASS_BE", CLASS_BE},
    {"IOPRIO_CLASS_IDLE", CLASS_IDLE},
    {NULL, 0},
};

int ioprio_plan(const struct spec_io_priority *priority, struct ioprio_plan *out, struct error *err)
{
    *out = (struct ioprio_plan){0};
    if (priority == NULL || priority->class == NULL)
        return 0;
    const struct name_value *class = names_find(classes, priority->class);
    if (class == NULL)
        return error_set(err, -EINVAL, "process.ioPriority.class: unknown class '%s'", priority->class);
    int64_t level = priority->priority.set ? priority->priority.value : 0;
    if (level < 0 || level >= LEVELS)
        return error_set(err, -EINVAL, "process.ioPriority.priority: %lld is not between 0 and 7",
                         (long long)level);
    out->set = true;
    out->value = (int)class->value << CLASS_SHIFT | (int)level;
    return 0;
}

int ioprio_apply(const struct ioprio_plan *plan, struct error *err)
{
    if (plan->set && syscall(SYS_ioprio_set, WHO_PROCESS, 0, plan->value) < 0)
        return error_set(err, -errno, "process.ioPriority: set class %d, priority %d",
                         plan->value >> CLASS_SHIFT, plan->value & (LEVELS - 1));
    return 0;
}

void ioprio_describe(const struct ioprio_plan *plan, struct json_out *out)
{
    json_out_map_open(out);
    json_out_pair_string(out, "class", names_of(classes, (uint64_t)plan->value >> CLASS_SHIFT));
    json_out_pair_i64(out, "priority", plan->value & (LEVELS - 1));
    json_out_map_close(out);
}
