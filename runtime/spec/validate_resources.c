/* linux.resources (config-linux.md#control-groups). Properties for which cgroup v2 has no file are refused
 * here, by their JSON path. The kernel decides about the values of the others. */
#include "spec/validate.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "spec/spec.h"

/* Range of the specification's blkio weights. Some engines always write one, and 0 then means unset. */
#define WEIGHT_MIN 10
#define WEIGHT_MAX 1000

static int unavailable(struct error *err, const char *path)
{
    return error_set(err, -EINVAL, "linux.resources.%s: not available with cgroup v2", path);
}

/* Only a value with an effect is refused: 0 and -1 (no limit) are the behaviour of cgroup v2 anyway. */
static bool asks(struct opt_i64 number)
{
    return number.set && number.value > 0;
}

static bool asks_u64(struct opt_u64 number)
{
    return number.set && number.value > 0;
}

static int validate_memory(const struct spec_memory *m, struct error *err)
{
    if (m == NULL)
        return 0;
    if (asks(m->kernel))
        return unavailable(err, "memory.kernel");
    if (asks(m->kernel_tcp))
        return unavailable(err, "memory.kernelTCP");
    if (m->swappiness.set)
        return unavailable(err, "memory.swappiness");
    if (m->disable_oom_killer.set && m->disable_oom_killer.value)
        return unavailable(err, "memory.disableOOMKiller");
    /* Version 2 always accounts hierarchically. */
    if (m->use_hierarchy.set && !m->use_hierarchy.value)
        return unavailable(err, "memory.useHierarchy");
    /* The specification's swap is memory and swap together. The difference from the limit is for swap, so it
     * needs the limit. */
    if (asks(m->swap) && (!m->limit.set || m->limit.value == 0))
        return error_set(err, -EINVAL, "linux.resources.memory.swap: needs memory.limit");
    if (asks(m->swap) && m->swap.value < m->limit.value)
        return error_set(err, -EINVAL,
                         "linux.resources.memory.swap: %" PRId64 " is below memory.limit %" PRId64
                         " (it counts memory and swap together)",
                         m->swap.value, m->limit.value);
    return 0;
}

static int validate_cpu(const struct spec_cpu *c, struct error *err)
{
    if (c == NULL)
        return 0;
    if (asks(c->realtime_runtime))
        return unavailable(err, "cpu.realtimeRuntime");
    if (asks_u64(c->realtime_period))
        return unavailable(err, "cpu.realtimePeriod");
    if (c->cpus != NULL && has_control_character(c->cpus))
        return error_set(err, -EINVAL, "linux.resources.cpu.cpus: contains a control character");
    if (c->mems != NULL && has_control_character(c->mems))
        return error_set(err, -EINVAL, "linux.resources.cpu.mems: contains a control character");
    return 0;
}

static bool weight_in_range(struct opt_u64 weight)
{
    return !asks_u64(weight) || (weight.value >= WEIGHT_MIN && weight.value <= WEIGHT_MAX);
}

static int validate_block_io(const struct spec_block_io *b, struct error *err)
{
    if (b == NULL)
        return 0;
    if (asks_u64(b->leaf_weight))
        return unavailable(err, "blockIO.leafWeight");
    if (!weight_in_range(b->weight))
        return error_set(err, -EINVAL,
                         "linux.resources.blockIO.weight: %" PRIu64 " is out of range (%d to %d)",
                         b->weight.value, WEIGHT_MIN, WEIGHT_MAX);
    for (size_t i = 0; i < b->weight_device.count; i++) {
        const struct spec_weight_device *d = &b->weight_device.items[i];
        if (asks_u64(d->leaf_weight))
            return error_set(
                err, -EINVAL,
                "linux.resources.blockIO.weightDevice[%zu].leafWeight: not available with cgroup "
                "v2",
                i);
        if (!weight_in_range(d->weight))
            return error_set(err, -EINVAL,
                             "linux.resources.blockIO.weightDevice[%zu].weight: %" PRIu64
                             " is out of range (%d to %d)",
                             i, d->weight.value, WEIGHT_MIN, WEIGHT_MAX);
    }
    return 0;
}

/* The specification has no negative number except -1, and 0 means "not given". */
static int validate_pids(struct opt_i64 limit, struct error *err)
{
    if (!limit.set || limit.value >= -1)
        return 0;
    return error_set(err, -EINVAL,
                     "linux.resources.pids.limit: %" PRId64
                     " is neither a number of processes nor -1, which is no limit",
                     limit.value);
}

/* Return whether this is a page size such as "2MB" or "1GB", which is a part of the file's name
 * (hugetlb.2MB.max). */
static bool is_page_size(const char *s)
{
    size_t digits = strspn(s, "0123456789");
    return digits > 0 && s[0] != '0' && strchr("KMG", s[digits]) != NULL && s[digits] != '\0' &&
           s[digits + 1] == 'B' && s[digits + 2] == '\0';
}

static int validate_hugepages(const struct spec_resources *r, struct error *err)
{
    for (size_t i = 0; i < r->hugepage_limits.count; i++)
        if (!is_page_size(r->hugepage_limits.items[i].page_size))
            return error_set(err, -EINVAL,
                             "linux.resources.hugepageLimits[%zu].pageSize: '%s' is not a size such as "
                             "\"2MB\"",
                             i, r->hugepage_limits.items[i].page_size);
    return 0;
}

static int validate_rdma(const struct spec_resources *r, struct error *err)
{
    for (size_t i = 0; i < r->rdma.count; i++) {
        const struct spec_rdma *d = &r->rdma.items[i];
        if (d->device[0] == '\0' || strpbrk(d->device, " \t\n/") != NULL)
            return error_set(err, -EINVAL, "linux.resources.rdma: '%s' is not the name of a device",
                             d->device);
        if (!d->hca_handles.set && !d->hca_objects.set)
            return error_set(err, -EINVAL, "linux.resources.rdma.%s: needs hcaHandles or hcaObjects",
                             d->device);
    }
    return 0;
}

/* Return whether the name is "controller.file", so that it cannot refer to a file outside the container's
 * cgroup directory. */
static bool is_cgroup_file(const char *name)
{
    const char *dot = strchr(name, '.');
    if (dot == NULL || dot == name || dot[1] == '\0')
        return false;
    for (; *name != '\0'; name++)
        if (!isalnum((unsigned char)*name) && strchr("._-", *name) == NULL)
            return false;
    return true;
}

static int validate_unified(const struct str_map *unified, struct error *err)
{
    for (size_t i = 0; i < unified->count; i++)
        if (!is_cgroup_file(unified->items[i].key))
            return error_set(err, -EINVAL,
                             "linux.resources.unified: '%s' is not the name of a cgroup file such as "
                             "\"memory.high\"",
                             unified->items[i].key);
    return 0;
}

static int validate_device_rules(const struct spec_resources *r, struct error *err)
{
    for (size_t i = 0; i < r->devices.count; i++) {
        const char *access = r->devices.items[i].access;
        if (access != NULL && access[strspn(access, "rwm")] != '\0')
            return error_set(err, -EINVAL,
                             "linux.resources.devices[%zu].access: '%s' has letters other than r, w and m", i,
                             access);
    }
    return 0;
}

int validate_resources(const struct spec_resources *resources, struct error *err)
{
    if (resources->has_network)
        return unavailable(err, "network");
    int ret = validate_device_rules(resources, err);
    if (ret < 0)
        return ret;
    ret = validate_memory(resources->memory, err);
    if (ret < 0)
        return ret;
    ret = validate_cpu(resources->cpu, err);
    if (ret < 0)
        return ret;
    ret = validate_block_io(resources->block_io, err);
    if (ret < 0)
        return ret;
    ret = validate_pids(resources->pids_limit, err);
    if (ret < 0)
        return ret;
    ret = validate_hugepages(resources, err);
    if (ret < 0)
        return ret;
    ret = validate_rdma(resources, err);
    if (ret < 0)
        return ret;
    return validate_unified(&resources->unified, err);
}
