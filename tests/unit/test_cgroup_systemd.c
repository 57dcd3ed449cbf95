/* The manager systemd, as far as it is testable without systemd: names, paths and properties of a scope. */
#include "cgroup/systemd.h"

#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "cgroup/cgroup.h"
#include "cgroup/systemd_properties.h"
#include "spec/spec.h"
#include "unit.h"

static struct arena arena;

/* Return "NAME=VALUE" of a property, with the type before the value as in GVariant text. */
static const char *shown(const struct systemd_property *p)
{
    const char *text = "";
    switch (p->type) {
    case SYSTEMD_BOOLEAN:
        return arena_printf(&arena, "%s=%s", p->name, p->number ? "true" : "false");
    case SYSTEMD_INT32:
        return arena_printf(&arena, "%s=%d", p->name, (int)p->number);
    case SYSTEMD_UINT32:
        return arena_printf(&arena, "%s=uint32 %" PRIu64, p->name, p->number);
    case SYSTEMD_INT64:
        return arena_printf(&arena, "%s=int64 %" PRIi64, p->name, (int64_t)p->number);
    case SYSTEMD_UINT64:
        return arena_printf(&arena, "%s=uint64 %" PRIu64, p->name, p->number);
    case SYSTEMD_STRING:
        return arena_printf(&arena, "%s='%s'", p->name, p->text);
    case SYSTEMD_DEVICE_NUMBER:
        return arena_printf(&arena, "%s=('%s', %" PRIu64 ")", p->name, p->text, p->number);
    case SYSTEMD_STRINGS:
        for (size_t i = 0; p->texts[i] != NULL; i++)
            text = arena_printf(&arena, "%s%s'%s'", text, i > 0 ? ", " : "", p->texts[i]);
        return arena_printf(&arena, "%s=[%s]", p->name, text);
    case SYSTEMD_BYTES:
        for (size_t i = 0; i < p->size; i++)
            text = arena_printf(&arena, "%s%02x", text, p->bytes[i]);
        return arena_printf(&arena, "%s=%s", p->name, text);
    }
    return NULL;
}

static const char *all_shown(const struct systemd_properties *properties)
{
    const char *text = "";
    for (size_t i = 0; i < properties->count; i++)
        text = arena_printf(&arena, "%s%s%s", text, i > 0 ? " " : "", shown(&properties->items[i]));
    return text;
}

static const char *translate(const char *file, const char *value)
{
    struct cgroup_write write = {.file = file, .value = value};
    struct systemd_properties properties = {0};
    systemd_properties_of_writes(&arena, &(struct cgroup_writes){&write, 1}, &properties);
    return all_shown(&properties);
}

static void test_limits(void)
{
    is_str(translate("memory.max", "1048576"), "MemoryMax=uint64 1048576", "memory.max");
    is_str(translate("memory.max", "max"), "MemoryMax=uint64 18446744073709551615", "memory.max max");
    is_str(translate("memory.swap.max", "0"), "MemorySwapMax=uint64 0", "memory.swap.max is swap alone");
    is_str(translate("pids.max", "10"), "TasksMax=uint64 10", "pids.max");
    is_str(translate("cpu.weight", "170"), "CPUWeight=uint64 170", "cpu.weight");
    is_str(translate("cpu.idle", "1"), "CPUWeight=uint64 0", "cpu.idle is a weight of 0");
    is_str(translate("cpu.max", "50000 100000"),
           "CPUQuotaPerSecUSec=uint64 500000 CPUQuotaPeriodUSec=uint64 100000", "cpu.max");
    is_str(translate("cpu.max", "33333 100000"),
           "CPUQuotaPerSecUSec=uint64 340000 CPUQuotaPeriodUSec=uint64 100000", "cpu.max is rounded up");
    is_str(translate("cpu.max", "max"), "CPUQuotaPerSecUSec=uint64 18446744073709551615", "cpu.max max");
    is_str(translate("cpuset.cpus", "0-2,9"), "AllowedCPUs=0702", "cpuset.cpus is a bit mask");
    is_str(translate("io.bfq.weight", "100"), "IOWeight=uint64 100",
           "io.bfq.weight: the middle is the middle");
    is_str(translate("io.bfq.weight", "1000"), "IOWeight=uint64 10000", "io.bfq.weight: the greatest");
    is_str(translate("io.bfq.weight", "8:0 1000"), "IODeviceWeight=('/dev/block/8:0', 10000)",
           "io.bfq.weight of a device");
    is_str(translate("memory.oom.group", "1"), "OOMPolicy='kill'", "memory.oom.group");
    is_str(translate("hugetlb.2MB.max", "0"), "", "limits without a property of systemd");
    struct cgroup_write pair[] = {{.file = "io.bfq.weight", .value = "50", .or_next = true},
                                  {.file = "io.weight", .value = "405"}};
    struct systemd_properties properties = {0};
    systemd_properties_of_writes(&arena, &(struct cgroup_writes){pair, 2}, &properties);
    is_str(all_shown(&properties), "IOWeight=uint64 50", "of two ways to say a weight, one");
}

static void test_bitmask(void)
{
    static const char *const wrong[] = {"a", "1-", "-1", "3-1", "1,", "1;2", "99999999", "1-2-3"};
    size_t size = 99;
    ok(systemd_bitmask(&arena, "", &size) != NULL && size == 0, "an empty list is an empty mask");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ok(systemd_bitmask(&arena, wrong[i], &size) == NULL, "'%s' is not a list of processors", wrong[i]);
}

static const char *annotated(const char *name, const char *value)
{
    struct str_pair pair = {name, value};
    struct spec spec = {.annotations = {&pair, 1}};
    struct systemd_properties properties = {0};
    struct error err = {0};
    if (systemd_properties_of_annotations(&arena, &spec, &properties, &err) < 0)
        return "error";
    return all_shown(&properties);
}

static void test_annotations(void)
{
#define PROPERTY(name) "org.systemd.property." name
    static const struct {
        const char *name, *value, *expected;
    } rows[] = {
        {PROPERTY("TimeoutStopUSec"), "uint64 10000000", "TimeoutStopUSec=uint64 10000000"},
        {PROPERTY("KillSignal"), "15", "KillSignal=15"},
        {PROPERTY("TimeoutStopSec"), "2", "TimeoutStopUSec=uint64 2000000"},
        {PROPERTY("TimeoutStopSec"), "uint64 2", "TimeoutStopUSec=uint64 2000000"},
        {PROPERTY("TimeoutStopSec"), "1.5", "TimeoutStopUSec=uint64 1500000"},
        {PROPERTY("TimeoutStopSec"), "'long'", "error"},
        {PROPERTY("TimeoutStopSec"), "-2", "error"},
        {PROPERTY("CollectMode"), "'inactive-or-failed'", "CollectMode='inactive-or-failed'"},
        {PROPERTY("SendSIGHUP"), "true", "SendSIGHUP=true"},
        {PROPERTY("OOMScoreAdjust"), "int32 -5", "OOMScoreAdjust=-5"},
        {PROPERTY("After"), "['a.service', \"b\\\"c\"]", "After=['a.service', 'b\"c']"},
        {PROPERTY("After"), "@as []", "After=[]"},
        {PROPERTY("After"), "[]", "error"},
        {PROPERTY("After"), "['a'", "error"},
        {PROPERTY("Limit"), "uint32 4294967296", "error"},
        {PROPERTY("Limit"), "uint32 -1", "error"},
        {PROPERTY("Text"), "bare", "error"},
        {PROPERTY("No Name"), "1", "error"},
        {"io.container.manager", "libpod", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        is_str(annotated(rows[i].name, rows[i].value), rows[i].expected, "%s: %s", rows[i].name,
               rows[i].value);
}

static void test_slices(void)
{
    static const struct {
        const char *slice, *path;
    } rows[] = {
        {"machine.slice", "/machine.slice"},
        {"-.slice", ""},
        {"user-1000.slice", "/user.slice/user-1000.slice"},
        {"a-b-c.slice", "/a.slice/a-b.slice/a-b-c.slice"},
        {"-a.slice", NULL},
        {"a-.slice", NULL},
        {"a--b.slice", NULL},
        {".slice", NULL},
        {"machine", NULL},
        {"a/b.slice", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        is_str(cgroup_systemd_slice_path(&arena, rows[i].slice), rows[i].path, "slice '%s'", rows[i].slice);
}

static const char *path_of(const char *cgroups_path, const char *subgroup)
{
    struct str_pair pair = {"run.oci.systemd.subgroup", subgroup};
    struct spec_linux linux_ = {.cgroups_path = cgroups_path};
    struct spec spec = {.linux_ = &linux_, .annotations = {&pair, subgroup != NULL}};
    struct cgroup_options options = {.manager = CGROUP_MANAGER_SYSTEMD, .id = "a+b"};
    struct cgroup_plan plan = {.ref = {.manager = CGROUP_MANAGER_SYSTEMD}};
    struct error err = {0};
    return cgroup_systemd_plan(&arena, &spec, &options, &plan, &err) < 0 ? "error" : plan.ref.path;
}

int main(void)
{
    test_limits();
    test_bitmask();
    test_annotations();
    test_slices();
    is_str(path_of("machine.slice:libpod:abc", NULL), "/machine.slice/libpod-abc.scope/container",
           "slice:prefix:name is a scope in the slice, and the container's own cgroup in the scope");
    is_str(path_of("machine.slice:libpod:abc", ""), "/machine.slice/libpod-abc.scope",
           "without a sub-cgroup when the annotation is empty");
    is_str(path_of(":libpod:abc", NULL), "/system.slice/libpod-abc.scope/container", "the usual slice");
    is_str(path_of("a-b.slice::abc", NULL), "/a.slice/a-b.slice/abc.scope/container", "no prefix");
    is_str(path_of(NULL, NULL), "/system.slice/pysbx-a\\x2bb.scope/container",
           "no path: named by the id, as a unit may be named");
    is_str(path_of("/a/b", NULL), "error", "a path of cgroupfs is refused");
    is_str(path_of("a.slice:b", NULL), "error", "so is one of two parts");
    is_str(path_of("a.slice:b:c", "../x"), "error", "a sub-cgroup is a plain name");
    arena_free(&arena);
    return done_testing();
}
