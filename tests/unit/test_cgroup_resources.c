/* linux.resources as files of cgroup v2: the whole table of conversions, without changing a cgroup. */
#include "cgroup/resources.h"

#include "base/arena.h"
#include "base/error.h"
#include "cgroup/cgroup.h"
#include "spec/spec.h"
#include "unit.h"

static struct arena arena;

/* Return the planned writes of a resources object as "FILE VALUE, …", or the error's message. A suffix of
 * the value has a meaning. "?": a missing file is no error. "|": the next write applies if the file is
 * missing. "~": tried again after the others. "<FILE": refused while that counter is higher. */
static const char *planned(const char *json)
{
    struct spec_resources *resources;
    struct cgroup_writes writes;
    struct error err = {0};
    if (spec_parse_resources(&arena, json, strlen(json), &resources, &err) < 0 ||
        cgroup_resources_plan(&arena, resources, &writes, &err) < 0)
        return arena_strdup(&arena, err.text);
    const char *text = "";
    for (size_t i = 0; i < writes.count; i++) {
        const struct cgroup_write *w = &writes.items[i];
        text = arena_printf(&arena, "%s%s%s %s%s%s%s%s%s", text, i > 0 ? ", " : "", w->file, w->value,
                            w->optional ? "?" : "", w->or_next ? "|" : "", w->or_later ? "~" : "",
                            w->usage != NULL ? "<" : "", w->usage != NULL ? w->usage : "");
    }
    return text;
}

static void test_shares(void)
{
    static const struct {
        uint64_t shares, weight;
    } rows[] = {{0, 1},       {2, 1},          {3, 2},          {100, 17},          {512, 59},
                {1023, 100},  {1024, 100},     {1025, 101},     {2000, 170},        {2048, 174},
                {10240, 639}, {262143, 10000}, {262144, 10000}, {UINT64_MAX, 10000}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        is_int(cgroup_weight_of_shares(rows[i].shares), rows[i].weight, "cpu.shares %" PRIu64,
               rows[i].shares);
    bool rising = true;
    for (uint64_t s = 2; s < 262144; s++)
        rising = rising && cgroup_weight_of_shares(s) <= cgroup_weight_of_shares(s + 1);
    ok(rising, "cpu.weight never falls when cpu.shares rises");
}

static const struct {
    const char *name, *json, *expected;
} rows[] = {
    {"nothing asked, nothing written", "{}", ""},
    {"cpu.shares 0 is unset", "{\"cpu\":{\"shares\":0}}", ""},
    {"cpu.shares", "{\"cpu\":{\"shares\":1024}}", "cpu.weight 100"},
    {"cpu.quota with period", "{\"cpu\":{\"quota\":50000,\"period\":20000}}", "cpu.max 50000 20000~"},
    {"cpu.quota alone leaves the period to the kernel", "{\"cpu\":{\"quota\":50000}}", "cpu.max 50000~"},
    {"cpu.quota 0 means not given", "{\"cpu\":{\"quota\":0,\"period\":0}}", ""},
    {"cpu.quota -1 is no limit", "{\"cpu\":{\"quota\":-1,\"period\":100000}}", "cpu.max max 100000?~"},
    {"cpu.period alone", "{\"cpu\":{\"period\":50000}}", "cpu.max max 50000?~"},
    {"cpu.burst and quota, in the order that the kernel accepts",
     "{\"cpu\":{\"quota\":50000,\"period\":100000,\"burst\":1000}}",
     "cpu.max.burst 1000~, cpu.max 50000 100000~"},
    {"cpu.idle 1 after the weight", "{\"cpu\":{\"idle\":1,\"shares\":1024}}", "cpu.weight 100, cpu.idle 1"},
    {"cpu.idle 0 before the weight", "{\"cpu\":{\"idle\":0,\"shares\":1024}}", "cpu.idle 0?, cpu.weight 100"},
    {"cpuset verbatim", "{\"cpu\":{\"cpus\":\"0-1,3\",\"mems\":\"0\"}}", "cpuset.cpus 0-1,3, cpuset.mems 0"},
    {"an empty cpuset clears", "{\"cpu\":{\"cpus\":\"\"}}", "cpuset.cpus \n?"},
    {"memory.limit", "{\"memory\":{\"limit\":1048576}}", "memory.max 1048576"},
    {"memory.limit 0 is unset", "{\"memory\":{\"limit\":0}}", ""},
    {"memory.limit -1 lifts swap as well", "{\"memory\":{\"limit\":-1}}",
     "memory.swap.max max?, memory.max max?"},
    {"memory.swap includes memory.limit", "{\"memory\":{\"limit\":1000,\"swap\":3000}}",
     "memory.swap.max 2000, memory.max 1000"},
    {"memory.swap equal to the limit is no swap", "{\"memory\":{\"limit\":1000,\"swap\":1000}}",
     "memory.swap.max 0?, memory.max 1000"},
    {"memory.swap -1", "{\"memory\":{\"limit\":1000,\"swap\":-1}}", "memory.swap.max max?, memory.max 1000"},
    {"memory.swap 0 is unset", "{\"memory\":{\"limit\":1000,\"swap\":0}}", "memory.max 1000"},
    {"memory.swap with unlimited memory", "{\"memory\":{\"limit\":-1,\"swap\":500}}",
     "memory.swap.max 500, memory.max max?"},
    {"memory.reservation", "{\"memory\":{\"reservation\":4096}}", "memory.low 4096"},
    {"memory.reservation -1", "{\"memory\":{\"reservation\":-1}}", "memory.low max?"},
    {"memory.checkBeforeUpdate", "{\"memory\":{\"limit\":1000,\"swap\":3000,\"checkBeforeUpdate\":true}}",
     "memory.swap.max 2000<memory.swap.current, memory.max 1000<memory.current"},
    {"memory.disableOOMKiller false asks for nothing", "{\"memory\":{\"disableOOMKiller\":false}}", ""},
    {"pids.limit", "{\"pids\":{\"limit\":100}}", "pids.max 100"},
    {"pids.limit -1", "{\"pids\":{\"limit\":-1}}", "pids.max max?"},
    {"pids.limit 0 is unset", "{\"pids\":{\"limit\":0}}", ""},
    {"blockIO.weight for BFQ, or converted", "{\"blockIO\":{\"weight\":1000}}",
     "io.bfq.weight 1000|, io.weight 10000"},
    {"blockIO.weight least", "{\"blockIO\":{\"weight\":10}}", "io.bfq.weight 10|, io.weight 1"},
    {"blockIO.weightDevice", "{\"blockIO\":{\"weightDevice\":[{\"major\":8,\"minor\":0,\"weight\":500}]}}",
     "io.bfq.weight 8:0 500|, io.weight 8:0 4950"},
    {"blockIO.throttle",
     "{\"blockIO\":{\"throttleReadBpsDevice\":[{\"major\":8,\"minor\":0,\"rate\":1000}],"
     "\"throttleWriteBpsDevice\":[{\"major\":8,\"minor\":0,\"rate\":0}],"
     "\"throttleReadIOPSDevice\":[{\"major\":8,\"minor\":16,\"rate\":10}],"
     "\"throttleWriteIOPSDevice\":[{\"major\":8,\"minor\":16,\"rate\":20}]}}",
     "io.max 8:0 rbps=1000, io.max 8:0 wbps=max?, io.max 8:16 riops=10, io.max 8:16 wiops=20"},
    {"hugepageLimits, pages in use and reserved",
     "{\"hugepageLimits\":[{\"pageSize\":\"2MB\",\"limit\":4194304}]}",
     "hugetlb.2MB.max 4194304, hugetlb.2MB.rsvd.max 4194304?"},
    {"rdma", "{\"rdma\":{\"mlx5_1\":{\"hcaHandles\":3,\"hcaObjects\":10000}}}",
     "rdma.max mlx5_1 hca_handle=3 hca_object=10000"},
    {"unified last, a line a write",
     "{\"unified\":{\"memory.high\":\"1000\",\"io.max\":\"8:0 rbps=1\\n8:16 "
     "rbps=2\"},\"pids\":{\"limit\":5}}",
     "pids.max 5, memory.high 1000, io.max 8:0 rbps=1, io.max 8:16 rbps=2"},
};

static void test_sources(void)
{
    static const char json[] =
        "{\"memory\":{\"limit\":1,\"reservation\":1},\"unified\":{\"pids.max\":\"7\"}}";
    struct spec_resources *resources;
    struct cgroup_writes writes = {0};
    if (!ok(spec_parse_resources(&arena, json, strlen(json), &resources, NULL) == 0 &&
                cgroup_resources_plan(&arena, resources, &writes, NULL) == 0 && writes.count == 3,
            "every write is planned"))
        return;
    is_str(writes.items[1].source, "memory.reservation", "a write knows where it comes from");
    is_str(writes.items[2].source, "unified.pids.max", "so does one of unified");
    is_str(writes.items[2].controller, "pids", "the controller is the first part of the file's name");
}

int main(void)
{
    test_shares();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        is_str(planned(rows[i].json), rows[i].expected, "%s", rows[i].name);
    test_sources();
    arena_free(&arena);
    return done_testing();
}
