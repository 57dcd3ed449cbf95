/* Set the NUMA memory policy. */
#include "sandbox/mempolicy.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json_out.h"
#include "sandbox/names.h"
#include "spec/spec.h"

/* Modes newer than the headers of the oldest supported distribution. The numbers are kernel ABI. */
enum {
    MODE_PREFERRED_MANY = 5,      /* Linux 5.15 */
    MODE_WEIGHTED_INTERLEAVE = 6, /* Linux 6.9 */
    FLAG_NUMA_BALANCING = 1 << 13 /* Linux 5.12 */
};

static const struct name_value mempolicy_modes[] = {
    {"MPOL_DEFAULT", MPOL_DEFAULT},
    {"MPOL_PREFERRED", MPOL_PREFERRED},
    {"MPOL_BIND", MPOL_BIND},
    {"MPOL_INTERLEAVE", MPOL_INTERLEAVE},
    {"MPOL_LOCAL", MPOL_LOCAL},
    {"MPOL_PREFERRED_MANY", MODE_PREFERRED_MANY},
    {"MPOL_WEIGHTED_INTERLEAVE", MODE_WEIGHTED_INTERLEAVE},
    {NULL, 0},
};

static const struct name_value mempolicy_flags[] = {
    {"MPOL_F_NUMA_BALANCING", FLAG_NUMA_BALANCING},
    {"MPOL_F_RELATIVE_NODES", MPOL_F_RELATIVE_NODES},
    {"MPOL_F_STATIC_NODES", MPOL_F_STATIC_NODES},
    {NULL, 0},
};

int mempolicy_plan(struct arena *a, const struct spec_memory_policy *policy, struct mempolicy_plan *out,
                   struct error *err)
{
    *out = (struct mempolicy_plan){0};
    if (policy == NULL || policy->mode == NULL)
        return 0;
    const struct name_value *mode = names_find(mempolicy_modes, policy->mode);
    if (mode == NULL)
        return error_set(err, -EINVAL, "linux.memoryPolicy.mode: unknown mode '%s'", policy->mode);
    out->mode = (int)mode->value;
    for (size_t i = 0; i < policy->flags.count; i++) {
        const struct name_value *flag = names_find(mempolicy_flags, policy->flags.items[i]);
        if (flag == NULL)
            return error_set(err, -EINVAL, "linux.memoryPolicy.flags[%zu]: unknown flag '%s'", i,
                             policy->flags.items[i]);
        out->mode |= (int)flag->value;
    }
    out->node_list = policy->nodes != NULL ? policy->nodes : "";
    int ret = bitlist_parse(a, out->node_list, &out->nodes);
    if (ret < 0)
        return error_text(err, -EINVAL, "linux.memoryPolicy.nodes: '%s' is not a list of nodes",
                          out->node_list);
    out->mode_name = mode->name;
    out->set = true;
    return 0;
}

int mempolicy_apply(const struct mempolicy_plan *plan, struct error *err)
{
    if (!plan->set)
        return 0;
    /* The kernel reads only maxnode - 1 bits (BUGS of get_mempolicy(2)). */
    size_t maxnode = plan->nodes.bits > 0 ? plan->nodes.bits + 1 : 0;
    if (syscall(SYS_set_mempolicy, plan->mode, plan->nodes.words, maxnode) < 0)
        return error_text(err, -errno, "linux.memoryPolicy: set %s with nodes '%s': %s", plan->mode_name,
                          plan->node_list, error_reason(errno));
    return 0;
}

void mempolicy_describe(const struct mempolicy_plan *plan, struct json_out *out)
{
    json_out_map_open(out);
    json_out_pair_string(out, "mode", plan->mode_name);
    json_out_key(out, "flags");
    json_out_array_open(out);
    for (const struct name_value *flag = mempolicy_flags; flag->name != NULL; flag++)
        if ((plan->mode & (int)flag->value) != 0)
            json_out_string(out, flag->name);
    json_out_array_close(out);
    json_out_pair_string(out, "nodes", plan->node_list);
    json_out_map_close(out);
}
