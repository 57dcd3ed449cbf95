/* I/O scheduling class and priority: ioprio_set(2), runtime-spec process.ioPriority. */
#ifndef PYSBX_SANDBOX_IOPRIO_H
#define PYSBX_SANDBOX_IOPRIO_H

#include <stdbool.h>

struct error;
struct json_out;
struct spec_io_priority;

struct ioprio_plan {
    bool set;
    int value; /* class and priority as the kernel packs them */
};

/* priority NULL: nothing to do. -EINVAL, by JSON path, for an unknown class or a priority outside 0 … 7. */
int ioprio_plan(const struct spec_io_priority *priority, struct ioprio_plan *out, struct error *err);
/* Child, while privileged. */
int ioprio_apply(const struct ioprio_plan *plan, struct error *err);
/* A map of class and priority. */
void ioprio_describe(const struct ioprio_plan *plan, struct json_out *out);

#endif
