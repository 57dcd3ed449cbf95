/* linux.resources, which the specification designed for cgroup v1, as values for the files of cgroup v2. */
#pragma once

#include <stdint.h>

struct arena;
struct cgroup_writes;
struct error;
struct spec_resources;

/* Plan the writes for everything in `resources` except the device rules, in order and in the arena. This does
 * not read the system. 0 or -EINVAL with the errors of spec_validate_resources. */
int cgroup_resources_plan(struct arena *a, const struct spec_resources *resources,
                          struct cgroup_writes *writes, struct error *err);

/* Convert cpu.shares (2 to 262144, default 1024) to cpu.weight (1 to 10000, default 100). */
uint64_t cgroup_weight_of_shares(uint64_t shares);
