/* Kernel parameters of the container's namespaces: proc_sys(5), runtime-spec linux.sysctl. spec/ decides
 * which keys are allowed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct error;
struct str_map;

struct sysctl_plan {
    struct sysctl_item {
        const char *key;  /* as config.json has it */
        const char *path; /* below /proc: "sys/net/ipv4/ip_forward" */
        const char *value;
        bool written; /* by sysctl_apply */
    } * items;
    size_t count;
};

/* Translate keys to paths by the rule of sysctl(8): the first of "." and "/" is the separator, and the other
 * one is exchanged. So "net.ipv4.conf.eth0/1.forwarding" and "net/ipv4/conf/eth0.1/forwarding" are the same.
 * Return 0, or -EINVAL for a key that leads outside /proc/sys or a value of more than one line. */
int sysctl_plan(struct arena *a, const struct str_map *sysctl, struct sysctl_plan *out, struct error *err);

/* Child, inside its namespaces and while privileged: write the parameters. A value that the kernel refuses is
 * written again after the others. Engines sort the keys, and a value may need another parameter first:
 * net.ipv4.ip_local_port_range "500 600" needs net.ipv4.ip_unprivileged_port_start 0. Return 0, or a negative
 * errno once another round changes nothing. */
int sysctl_apply(struct sysctl_plan *plan, struct error *err);
