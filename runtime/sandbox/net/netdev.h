/* Network devices of the host that the container gets: rtnetlink(7), runtime-spec 1.3 linux.netDevices. */
#pragma once

#include <stddef.h>

struct arena;
struct error;
struct json_out;
struct spec_linux;

struct netdev_plan {
    struct netdev_item {
        const char *name;     /* in the runtime's network namespace */
        const char *new_name; /* in the container's; never NULL */
    } * items;
    size_t count;
};

/* Plan the moves. spec_validate() has checked the names. */
void netdev_plan(struct arena *a, const struct spec_linux *linux_, struct netdev_plan *out);

/* Parent, once the container's network namespace exists: move each device, rename it, restore its permanent
 * global addresses, and set it up. netns: a descriptor of the namespace or a pidfd. The calling thread visits
 * the namespace for one socket(2) and comes back. After a failure, the devices moved so far stay there: the
 * kernel returns physical ones when the namespace ends. Return 0 or a negative errno. */
int netdev_apply(const struct netdev_plan *plan, int netns, struct error *err);

/* Write a map from the names on the host to those in the container. */
void netdev_describe(const struct netdev_plan *plan, struct json_out *out);
