/* Move network devices into the container. */
#include "sandbox/net/netdev.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json_out.h"
#include "sandbox/net/netlink.h"
#include "spec/spec.h"

#ifndef SIOCGSKNS
#define SIOCGSKNS 0x894C
#endif

void netdev_plan(struct arena *a, const struct spec_linux *linux_, struct netdev_plan *out)
{
    *out = (struct netdev_plan){.count = linux_->net_devices.count};
    if (out->count == 0)
        return;
    out->items = ARENA_ARRAY(a, out->count, struct netdev_item);
    for (size_t i = 0; i < out->count; i++) {
        const struct spec_net_device *from = &linux_->net_devices.items[i];
        out->items[i] =
            (struct netdev_item){from->name, from->new_name != NULL ? from->new_name : from->name};
    }
}

struct address {
    uint8_t family, prefix;
    uint32_t flags;
    size_t size; /* 4 or 16 */
    bool has_local, has_broadcast;
    unsigned char address[16], local[16], broadcast[16];
};

struct addresses {
    int index; /* of the device */
    struct address *items;
    size_t count;
};

static void free_addresses(struct addresses *addresses)
{
    free(addresses->items);
}

static bool copy_attribute(const struct nlmsghdr *message, int type, size_t expected, unsigned char *out)
{
    size_t size;
    const void *data = netlink_attribute(message, sizeof(struct ifaddrmsg), type, &size);
    if (data == NULL || size != expected)
        return false;
    memcpy(out, data, size);
    return true;
}

/* Keep an address that was configured and has global scope. The kernel and its neighbours create the others
 * again. */
static int collect_address(const struct nlmsghdr *message, void *arg)
{
    struct addresses *all = arg;
    const struct ifaddrmsg *from = NLMSG_DATA(message);
    if (message->nlmsg_type != RTM_NEWADDR || (int)from->ifa_index != all->index ||
        from->ifa_scope != RT_SCOPE_UNIVERSE)
        return 0;
    uint32_t flags = from->ifa_flags;
    (void)copy_attribute(message, IFA_FLAGS, sizeof(flags), (unsigned char *)&flags);
    if (!(flags & IFA_F_PERMANENT))
        return 0;
    /* Keep the configured flags; the others are state. The address was in use, so it is not a duplicate:
     * without detection of duplicates it is usable at once instead of after a second. */
    flags &= IFA_F_NODAD | IFA_F_HOMEADDRESS | IFA_F_MANAGETEMPADDR | IFA_F_NOPREFIXROUTE | IFA_F_MCAUTOJOIN;
    if (from->ifa_family == AF_INET6)
        flags |= IFA_F_NODAD;
    struct address address = {
        .family = from->ifa_family,
        .prefix = from->ifa_prefixlen,
        .flags = flags,
        .size = from->ifa_family == AF_INET6 ? 16 : 4,
    };
    if (!copy_attribute(message, IFA_ADDRESS, address.size, address.address))
        return 0;
    address.has_local = copy_attribute(message, IFA_LOCAL, address.size, address.local);
    address.has_broadcast = copy_attribute(message, IFA_BROADCAST, address.size, address.broadcast);
    struct address *grown = realloc(all->items, (all->count + 1) * sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    all->items = grown;
    all->items[all->count++] = address;
    return 0;
}

static int collect_addresses(int fd, struct addresses *out)
{
    struct netlink_request request;
    const struct ifaddrmsg header = {.ifa_family = AF_UNSPEC, .ifa_index = (unsigned)out->index};
    netlink_begin(&request, RTM_GETADDR, NLM_F_DUMP, &header, sizeof(header));
    return netlink_call(fd, &request, collect_address, out);
}

static int take_index(const struct nlmsghdr *message, void *arg)
{
    const struct ifinfomsg *link = NLMSG_DATA(message);
    if (message->nlmsg_type == RTM_NEWLINK)
        *(int *)arg = link->ifi_index;
    return 0;
}

static int find_device(int fd, const char *name, int *index)
{
    struct netlink_request request;
    const struct ifinfomsg header = {.ifi_family = AF_UNSPEC};
    netlink_begin(&request, RTM_GETLINK, 0, &header, sizeof(header));
    netlink_add(&request, IFLA_IFNAME, name, strlen(name) + 1);
    *index = 0;
    int ret = netlink_call(fd, &request, take_index, index);
    return ret < 0 ? ret : *index > 0 ? 0 : -ENODEV;
}

/* Move a device into the other namespace and rename it, in one request. new_index 0: the kernel chooses. */
static int move_device(int fd, int index, int netns, const char *new_name)
{
    struct netlink_request request;
    const struct ifinfomsg header = {.ifi_family = AF_UNSPEC, .ifi_index = index};
    netlink_begin(&request, RTM_NEWLINK, 0, &header, sizeof(header));
    netlink_add(&request, IFLA_NET_NS_FD, &netns, sizeof(netns));
    netlink_add(&request, IFLA_IFNAME, new_name, strlen(new_name) + 1);
    return netlink_call(fd, &request, NULL, NULL);
}

static int set_up(int fd, int index)
{
    struct netlink_request request;
    const struct ifinfomsg header = {
        .ifi_family = AF_UNSPEC,
        .ifi_index = index,
        .ifi_flags = IFF_UP,
        .ifi_change = IFF_UP,
    };
    netlink_begin(&request, RTM_NEWLINK, 0, &header, sizeof(header));
    return netlink_call(fd, &request, NULL, NULL);
}

static int add_address(int fd, int index, const struct address *address)
{
    struct netlink_request request;
    const struct ifaddrmsg header = {
        .ifa_family = address->family,
        .ifa_prefixlen = address->prefix,
        .ifa_scope = RT_SCOPE_UNIVERSE,
        .ifa_index = (unsigned)index,
    };
    netlink_begin(&request, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &header, sizeof(header));
    netlink_add(&request, IFA_ADDRESS, address->address, address->size);
    if (address->has_local)
        netlink_add(&request, IFA_LOCAL, address->local, address->size);
    if (address->has_broadcast)
        netlink_add(&request, IFA_BROADCAST, address->broadcast, address->size);
    netlink_add(&request, IFA_FLAGS, &address->flags, sizeof(address->flags));
    return netlink_call(fd, &request, NULL, NULL);
}

static int find_with_addresses(int host, const char *name, struct addresses *out)
{
    int ret = find_device(host, name, &out->index);
    return ret < 0 ? ret : collect_addresses(host, out);
}

/* Set the addresses and the state of a device. name: it is looked up; NULL: it has this index. */
static int netdev_configure(int container, const char *name, const struct addresses *addresses)
{
    int index, found = find_device(container, name, &index);
    if (found < 0)
        return found;
    for (size_t i = 0; i < addresses->count; i++) {
        int ret = add_address(container, index, &addresses->items[i]);
        if (ret < 0)
            return ret;
    }
    return set_up(container, index);
}

static int move_one(const struct netdev_item *item, int host, int container, int netns, struct error *err)
{
    __attribute__((cleanup(free_addresses))) struct addresses addresses = {0};
    int ret = find_with_addresses(host, item->name, &addresses);
    if (ret < 0)
        return error_set(err, ret, "linux.netDevices['%s']", item->name);
    ret = move_device(host, addresses.index, netns, item->new_name);
    if (ret < 0)
        return error_set(err, ret, "linux.netDevices['%s']: move it into the container as '%s'", item->name,
                         item->new_name);
    ret = netdev_configure(container, item->new_name, &addresses);
    if (ret < 0)
        return error_set(err, ret, "linux.netDevices['%s']: set addresses and state of '%s' in the container",
                         item->name, item->new_name);
    return 0;
}

/* Open a socket in the other namespace. A socket stays in the namespace in which it was made and can name it,
 * so the way back needs no /proc. */
static int open_there(int host, int netns, struct error *err)
{
    cleanup_fd int here = ioctl(host, SIOCGSKNS);
    if (here < 0)
        return error_set(err, -errno, "linux.netDevices: get the runtime's network namespace");
    if (setns(netns, CLONE_NEWNET) < 0)
        return error_set(err, -errno, "linux.netDevices: enter the container's network namespace");
    int fd = netlink_open();
    if (setns(here, CLONE_NEWNET) < 0) {
        fd_close(&fd);
        return error_set(err, -errno, "linux.netDevices: return to the runtime's network namespace");
    }
    return fd < 0 ? error_set(err, fd,
                              "linux.netDevices: open a netlink socket in the container's network namespace")
                  : fd;
}

int netdev_apply(const struct netdev_plan *plan, int netns, struct error *err)
{
    if (plan->count == 0)
        return 0;
    cleanup_fd int host = netlink_open();
    if (host < 0)
        return error_set(err, host, "linux.netDevices: open a netlink socket");
    cleanup_fd int container = open_there(host, netns, err);
    if (container < 0)
        return container;
    /* netns may be a pidfd, which IFLA_NET_NS_FD does not accept. */
    cleanup_fd int target = ioctl(container, SIOCGSKNS);
    if (target < 0)
        return error_set(err, -errno, "linux.netDevices: get the container's network namespace");
    for (size_t i = 0; i < plan->count; i++) {
        int ret = move_one(&plan->items[i], host, container, target, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

void netdev_describe(const struct netdev_plan *plan, struct json_out *out)
{
    json_out_map_open(out);
    for (size_t i = 0; i < plan->count; i++)
        json_out_pair_string(out, plan->items[i].name, plan->items[i].new_name);
    json_out_map_close(out);
}
