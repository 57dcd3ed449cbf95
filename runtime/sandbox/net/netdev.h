/* Network devices of the host given to the container: rtnetlink(7), runtime-spec 1.3 linux.netDevices. */
#ifndef PYSBX_SANDBOX_NET_NETDEV_H
#define PYSBX_SANDBOX_NET_NETDEV_H

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

/* -EINVAL, by JSON path, for a name that cannot be one of a device. */
int netdev_plan(struct arena *a, const struct spec_linux *linux_, struct netdev_plan *out, struct error *err);

/* Parent, once the container's network namespace (netns, a descriptor of it or a pidfd) exists: move each
 * device, under its new name, with its permanent global addresses, and set it up. The calling thread visits
 * the namespace for one socket(2) and comes back. A failure leaves the devices moved so far where they are:
 * the kernel returns physical ones when the namespace ends. */
int netdev_apply(const struct netdev_plan *plan, int netns, struct error *err);

/* A map of the names on the host to those in the container. */
void netdev_describe(const struct netdev_plan *plan, struct json_out *out);

#endif
