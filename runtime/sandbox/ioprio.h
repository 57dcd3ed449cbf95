/* I/O scheduling class and priority: ioprio_set(2), runtime-spec process.ioPriority. */
#pragma once

#include <stdbool.h>

struct error;
struct json_out;
struct spec_io_priority;

struct ioprio_plan {
    bool set;
    int value; /* class and priority as the kernel packs them */
};

/* Plan the priority. priority NULL: there is nothing to do. Return 0, or -EINVAL with the JSON path for an
 * unknown class or a priority outside 0 … 7. */
int ioprio_plan(const struct spec_io_priority *priority, struct ioprio_plan *out, struct error *err);
/* Child, while privileged: set the priority. Return 0 or a negative errno. */
int ioprio_apply(const struct ioprio_plan *plan, struct error *err);
/* Write a map of class and priority. */
void ioprio_describe(const struct ioprio_plan *plan, struct json_out *out);
