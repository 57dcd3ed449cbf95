/* Kernel parameters of the container's namespaces: proc_sys(5), runtime-spec linux.sysctl. Which keys are
 * allowed is validated by spec/. */
#ifndef PYSBX_SANDBOX_SYSCTL_H
#define PYSBX_SANDBOX_SYSCTL_H

#include <stddef.h>

struct arena;
struct error;
struct str_map;

struct sysctl_plan {
    struct sysctl_item {
        const char *key;  /* as it was given */
        const char *path; /* below /proc: "sys/net/ipv4/ip_forward" */
        const char *value;
    } * items;
    size_t count;
};

/* Keys to paths by the rule of sysctl(8): the separator is whichever of "." and "/" comes first, the other
 * one is exchanged ("net.ipv4.conf.eth0/1.forwarding" and "net/ipv4/conf/eth0.1/forwarding" are the same).
 * -EINVAL for a key that leads outside /proc/sys or a value of more than one line. */
int sysctl_plan(struct arena *a, const struct str_map *sysctl, struct sysctl_plan *out, struct error *err);

/* Child, inside its namespaces and while privileged. */
int sysctl_apply(const struct sysctl_plan *plan, struct error *err);

#endif
