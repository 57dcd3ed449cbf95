/* linux.resources of the specification (made for cgroup v1) as values for the files of cgroup v2. */
#ifndef PYSBX_CGROUP_RESOURCES_H
#define PYSBX_CGROUP_RESOURCES_H

#include <stdint.h>

struct arena;
struct cgroup_writes;
struct error;
struct spec_resources;

/* The writes, in order, for everything in `resources` but the device rules; in the arena. Asks nothing of the
 * system. Errors are those of spec_validate_resources, by JSON path: what contradicts itself and what cgroup
 * v2 cannot express. */
int cgroup_resources_plan(struct arena *a, const struct spec_resources *resources,
                          struct cgroup_writes *writes, struct error *err);

/* cpu.shares (2 … 262144, 1024 is usual) to cpu.weight (1 … 10000, 100 is usual). */
uint64_t cgroup_weight_of_shares(uint64_t shares);

/* blockIO.weight (10 … 1000) to io.weight (1 … 10000). */
uint64_t cgroup_weight_of_blkio(uint64_t weight);

#endif
