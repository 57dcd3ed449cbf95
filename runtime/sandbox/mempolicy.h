/* NUMA memory policy: set_mempolicy(2), runtime-spec 1.3 linux.memoryPolicy. */
#pragma once

#include <stdbool.h>

#include "sandbox/bitlist.h"

struct arena;
struct error;
struct json_out;
struct spec_memory_policy;

struct mempolicy_plan {
    bool set;
    int mode; /* MPOL_… with the MPOL_F_… flags */
    struct bitlist nodes;
    const char *mode_name, *node_list; /* as config.json has them, for errors */
};

/* Plan the policy. policy NULL: there is nothing to do. Return 0, or -EINVAL with the JSON path for an
 * unknown mode or flag or a bad list of nodes. */
int mempolicy_plan(struct arena *a, const struct spec_memory_policy *policy, struct mempolicy_plan *out,
                   struct error *err);
/* Child, before it touches its memory: set the policy, which survives execve(2). Return 0 or a negative
 * errno. */
int mempolicy_apply(const struct mempolicy_plan *plan, struct error *err);
/* Write a map of mode, flags and nodes. */
void mempolicy_describe(const struct mempolicy_plan *plan, struct json_out *out);
