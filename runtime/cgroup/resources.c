/* Convert linux.resources to cgroup v2 (admin-guide/cgroup-v2.rst, "Core Interface Files" and "Controllers").
 * Nothing here reads or changes the system. */
#include "cgroup/resources.h"

#include <inttypes.h>
#include <string.h>

#include "base/arena.h"
#include "cgroup/types.h"
#include "spec/spec.h"

#define BLKIO_WEIGHT_MIN 10
#define BLKIO_WEIGHT_MAX 1000

struct builder {
    struct arena *arena;
    struct cgroup_writes *writes;
    size_t room;
};

/* Add an entry for one value. The caller sets its special members before it adds the next one. */
static struct cgroup_write *resources_add(struct builder *b, const char *file, const char *source,
                                          const char *value)
{
    struct cgroup_writes *w = b->writes;
    if (w->count == b->room) {
        b->room = b->room > 0 ? 2 * b->room : 8;
        struct cgroup_write *grown = ARENA_ARRAY(b->arena, b->room, struct cgroup_write);
        if (w->count > 0)
            memcpy(grown, w->items, w->count * sizeof(*grown));
        w->items = grown;
    }
    struct cgroup_write *entry = &w->items[w->count++];
    *entry = (struct cgroup_write){
        .file = file,
        .value = value,
        .controller = arena_strndup(b->arena, file, strcspn(file, ".")),
        .source = source,
    };
    return entry;
}

static struct cgroup_write *add_u64(struct builder *b, const char *file, const char *source, uint64_t value)
{
    return resources_add(b, file, source, arena_printf(b->arena, "%" PRIu64, value));
}

/* Add a number. A negative one means "no limit". */
static struct cgroup_write *add_limit(struct builder *b, const char *file, const char *source, int64_t value)
{
    if (value >= 0)
        return add_u64(b, file, source, (uint64_t)value);
    struct cgroup_write *entry = resources_add(b, file, source, "max");
    entry->optional = true;
    return entry;
}

/* log2 and 10^x are implemented here, because every start would have to load libm for this one number. */
static double log2_of(uint64_t n)
{
    int whole = 63 - __builtin_clzll(n);
    double x = (double)n / (double)(UINT64_C(1) << whole), result = whole, bit = 0.5;
    for (int i = 0; i < 50; i++) {
        x *= x;
        if (x >= 2) {
            x /= 2;
            result += bit;
        }
        bit /= 2;
    }
    return result;
}

static double power_of_ten(double exponent)
{
    const double ln10 = 2.302585092994045684;
    double result = 1, term = 1, rest = exponent * ln10;
    int halvings = 0;
    for (; rest > 0.5 || rest < -0.5; halvings++)
        rest /= 2;
    for (int i = 1; i < 20; i++) {
        term *= rest / i;
        result += term;
    }
    while (halvings-- > 0)
        result *= result;
    return result;
}

uint64_t cgroup_weight_of_shares(uint64_t shares)
{
    if (shares <= 2)
        return 1;
    if (shares >= 262144)
        return 10000;
    /* This maps 2, 1024 and 262144 to 1, 100 and 10000: the least, the default and the greatest of both
     * scales. */
    double l = log2_of(shares);
    double exact = power_of_ten((l * l + 125 * l) / 612 - 7.0 / 34);
    uint64_t weight = (uint64_t)exact;
    /* Round up, but not because of the last bits of a whole number (1024 is exactly 100). */
    return exact - (double)weight > 1e-7 ? weight + 1 : weight;
}

/* Convert blockIO.weight (10 to 1000) to io.weight (1 to 10000). */
static uint64_t cgroup_weight_of_blkio(uint64_t weight)
{
    return 1 + (weight - BLKIO_WEIGHT_MIN) * 9999 / (BLKIO_WEIGHT_MAX - BLKIO_WEIGHT_MIN);
}

static void plan_cpuset(struct builder *b, const struct spec_cpu *cpu)
{
    const struct {
        const char *file, *source, *value;
    } lists[] = {
        {"cpuset.cpus", "cpu.cpus", cpu->cpus},
        {"cpuset.mems", "cpu.mems", cpu->mems},
    };
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        if (lists[i].value == NULL)
            continue;
        /* An empty list clears the file. It is written as a newline, because an empty write may not reach the
         * kernel. */
        bool empty = lists[i].value[0] == '\0';
        resources_add(b, lists[i].file, lists[i].source, empty ? "\n" : lists[i].value)->optional = empty;
    }
}

static void plan_cpu(struct builder *b, const struct spec_cpu *cpu)
{
    plan_cpuset(b, cpu);
    bool idle = cpu->idle.set && cpu->idle.value != 0;
    /* The kernel accepts no weight for an idle cgroup: leave idle before the weight, enter it after the
     * weight. */
    if (cpu->idle.set && !idle)
        resources_add(b, "cpu.idle", "cpu.idle", "0")->optional = true;
    if (cpu->shares.set && cpu->shares.value != 0)
        add_u64(b, "cpu.weight", "cpu.shares", cgroup_weight_of_shares(cpu->shares.value));
    if (idle)
        add_limit(b, "cpu.idle", "cpu.idle", cpu->idle.value);
    if (cpu->burst.set) {
        struct cgroup_write *entry = add_u64(b, "cpu.max.burst", "cpu.burst", cpu->burst.value);
        entry->or_later = true;
        entry->optional = cpu->burst.value == 0;
    }
    bool quota = cpu->quota.set && cpu->quota.value > 0, period = cpu->period.set && cpu->period.value != 0;
    bool unlimited = cpu->quota.set && cpu->quota.value < 0; /* 0 means "not given", as in runc and crun */
    if (quota || unlimited || period) {
        const char *amount = quota ? arena_printf(b->arena, "%" PRIi64, cpu->quota.value) : "max";
        /* Without a period, the kernel keeps the current one: 100000 in a new cgroup. */
        const char *value =
            period ? arena_printf(b->arena, "%s %" PRIu64, amount, cpu->period.value) : amount;
        struct cgroup_write *entry =
            resources_add(b, "cpu.max", quota || unlimited ? "cpu.quota" : "cpu.period", value);
        entry->or_later = true;
        entry->optional = !quota;
    }
}

/* The specification's swap is memory and swap together, but cgroup v2's is swap alone. */
static void plan_swap(struct builder *b, const struct spec_memory *m)
{
    bool limited = m->limit.set && m->limit.value > 0;
    if (!m->swap.set || m->swap.value == 0) {
        /* Unlimited memory implies unlimited swap, as with cgroup v1. */
        if (m->limit.set && m->limit.value < 0)
            add_limit(b, "memory.swap.max", "memory.limit", -1);
        return;
    }
    int64_t swap = m->swap.value > 0 && limited ? m->swap.value - m->limit.value : m->swap.value;
    struct cgroup_write *entry = add_limit(b, "memory.swap.max", "memory.swap", swap);
    /* Without swap accounting, the container cannot use swap. */
    if (swap == 0)
        entry->optional = true;
    if (m->check_before_update.value && swap >= 0)
        entry->usage = "memory.swap.current";
}

static void plan_memory(struct builder *b, const struct spec_memory *m)
{
    plan_swap(b, m);
    if (m->limit.set && m->limit.value != 0) {
        struct cgroup_write *entry = add_limit(b, "memory.max", "memory.limit", m->limit.value);
        if (m->check_before_update.value && m->limit.value > 0)
            entry->usage = "memory.current";
    }
    if (m->reservation.set && m->reservation.value != 0)
        add_limit(b, "memory.low", "memory.reservation", m->reservation.value);
}

/* BFQ uses the specification's own scale. Without BFQ, io.weight gets the converted value. */
static void add_io_weight(struct builder *b, const char *source, const char *device, uint64_t weight)
{
    if (weight == 0)
        return;
    resources_add(b, "io.bfq.weight", source, arena_printf(b->arena, "%s%" PRIu64, device, weight))->or_next =
        true;
    resources_add(b, "io.weight", source,
                  arena_printf(b->arena, "%s%" PRIu64, device, cgroup_weight_of_blkio(weight)));
}

static void add_throttles(struct builder *b, const struct spec_throttle_devices *devices, const char *name,
                          const char *key)
{
    for (size_t i = 0; i < devices->count; i++) {
        const struct spec_throttle_device *d = &devices->items[i];
        const char *source = arena_printf(b->arena, "blockIO.%s[%zu]", name, i);
        const char *head = arena_printf(b->arena, "%" PRIi64 ":%" PRIi64 " %s=", d->major, d->minor, key);
        if (d->rate > 0)
            resources_add(b, "io.max", source, arena_printf(b->arena, "%s%" PRIu64, head, d->rate));
        else
            resources_add(b, "io.max", source, arena_printf(b->arena, "%smax", head))->optional = true;
    }
}

static void plan_io(struct builder *b, const struct spec_block_io *io)
{
    if (io->weight.set)
        add_io_weight(b, "blockIO.weight", "", io->weight.value);
    for (size_t i = 0; i < io->weight_device.count; i++) {
        const struct spec_weight_device *d = &io->weight_device.items[i];
        if (d->weight.set)
            add_io_weight(b, arena_printf(b->arena, "blockIO.weightDevice[%zu]", i),
                          arena_printf(b->arena, "%" PRIi64 ":%" PRIi64 " ", d->major, d->minor),
                          d->weight.value);
    }
    add_throttles(b, &io->throttle_read_bps, "throttleReadBpsDevice", "rbps");
    add_throttles(b, &io->throttle_write_bps, "throttleWriteBpsDevice", "wbps");
    add_throttles(b, &io->throttle_read_iops, "throttleReadIOPSDevice", "riops");
    add_throttles(b, &io->throttle_write_iops, "throttleWriteIOPSDevice", "wiops");
}

static void plan_hugetlb(struct builder *b, const struct spec_resources *r)
{
    for (size_t i = 0; i < r->hugepage_limits.count; i++) {
        const struct spec_hugepage_limit *h = &r->hugepage_limits.items[i];
        const char *source = arena_printf(b->arena, "hugepageLimits[%zu]", i);
        add_u64(b, arena_printf(b->arena, "hugetlb.%s.max", h->page_size), source, h->limit);
        /* This also limits what mmap only reserves, so that mmap fails instead of a later access with SIGBUS.
         * Kernels before 5.7 do not have the file. */
        add_u64(b, arena_printf(b->arena, "hugetlb.%s.rsvd.max", h->page_size), source, h->limit)->optional =
            true;
    }
}

static void plan_rdma(struct builder *b, const struct spec_resources *r)
{
    for (size_t i = 0; i < r->rdma.count; i++) {
        const struct spec_rdma *d = &r->rdma.items[i];
        const char *value = d->device;
        if (d->hca_handles.set)
            value = arena_printf(b->arena, "%s hca_handle=%" PRIu64, value, d->hca_handles.value);
        if (d->hca_objects.set)
            value = arena_printf(b->arena, "%s hca_object=%" PRIu64, value, d->hca_objects.value);
        if (value != d->device)
            resources_add(b, "rdma.max", arena_printf(b->arena, "rdma.%s", d->device), value);
    }
}

/* They come last, so that they override. Each line is a write, because a file with keys (io.max) accepts one
 * at a time. */
static void plan_unified(struct builder *b, const struct spec_resources *r)
{
    for (size_t i = 0; i < r->unified.count; i++) {
        const struct str_pair *pair = &r->unified.items[i];
        const char *source = arena_printf(b->arena, "unified.%s", pair->key), *line = pair->value;
        do {
            size_t length = strcspn(line, "\n");
            if (length > 0)
                resources_add(b, pair->key, source, arena_strndup(b->arena, line, length));
            line += length + (line[length] == '\n');
        } while (*line != '\0');
        if (pair->value[0] == '\0')
            resources_add(b, pair->key, source, "\n");
    }
}

int cgroup_resources_plan(struct arena *a, const struct spec_resources *resources,
                          struct cgroup_writes *writes, struct error *err)
{
    *writes = (struct cgroup_writes){0};
    if (resources == NULL)
        return 0;
    /* Validate here and not in the callers, because the arithmetic below relies on it. */
    int ret = spec_validate_resources(resources, err);
    if (ret < 0)
        return ret;
    struct builder b = {.arena = a, .writes = writes};
    if (resources->cpu != NULL)
        plan_cpu(&b, resources->cpu);
    if (resources->memory != NULL)
        plan_memory(&b, resources->memory);
    if (resources->block_io != NULL)
        plan_io(&b, resources->block_io);
    /* Ignore 0: engines older than runtime-spec 1.3 write it for "not given". */
    if (resources->pids_limit.set && resources->pids_limit.value != 0)
        add_limit(&b, "pids.max", "pids.limit", resources->pids_limit.value);
    plan_hugetlb(&b, resources);
    plan_rdma(&b, resources);
    plan_unified(&b, resources);
    return 0;
}
