/* spec/spec.h, validation: each contradiction of config.json with its error, and valid documents. */
#include "base/arena.h"
#include "base/error.h"
#include "spec/spec.h"
#include "unit.h"

static struct arena arena;

/* The smallest valid document. Tests replace or add parts. */
#define ROOT    "\"root\":{\"path\":\"rootfs\"}"
#define PROCESS "\"process\":{\"args\":[\"sh\"],\"cwd\":\"/\"}"
#define ALL_NAMESPACES                                                                                       \
    "{\"type\":\"pid\"},{\"type\":\"network\"},{\"type\":\"ipc\"},{\"type\":\"uts\"},{\"type\":\"mount\"},{" \
    "\"type\":\"cgroup\"}"

/* Return "" if the document is valid, otherwise the error without "config.json: ". */
static const char *verdict(const char *document)
{
    struct error error = {0};
    struct spec *spec;
    if (spec_parse(&arena, document, strlen(document), &spec, &error) < 0)
        bail_out("%s: %s", document, error.text);
    if (spec_validate(spec, &error) == 0)
        return "";
    return arena_strdup(&arena, error.text + strlen("config.json: "));
}

static const char *verdict_linux(const char *namespaces, const char *members)
{
    return verdict(arena_printf(&arena,
                                "{\"ociVersion\":\"1.3.0\"," ROOT "," PROCESS
                                ",\"linux\":{\"namespaces\":[{\"type\":\"mount\"}%s%s]%s%s}}",
                                *namespaces != '\0' ? "," : "", namespaces, *members != '\0' ? "," : "",
                                members));
}

static const char *verdict_document(const char *members)
{
    return verdict(arena_printf(
        &arena, "{\"ociVersion\":\"1.3.0\"," ROOT ",\"linux\":{\"namespaces\":[" ALL_NAMESPACES "]},%s}",
        members));
}

static void test_version(void)
{
    static const struct {
        const char *version, *message;
    } rows[] = {
        {"1.0.0", ""},
        {"1.0.2-dev", ""},
        {"1.3.0+build.5", ""},
        {"1.99.0", ""},
        {"2.0.0", "ociVersion: version '2.0.0' is not supported, only 1.x.y is"},
        {"0.9.0", "ociVersion: version '0.9.0' is not supported, only 1.x.y is"},
        {"1.0", "ociVersion: '1.0' is not a version"},
        {"1.0.0.0", "ociVersion: '1.0.0.0' is not a version"},
        {"v1.0.0", "ociVersion: 'v1.0.0' is not a version"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        is_str(verdict(arena_printf(&arena,
                                    "{\"ociVersion\":\"%s\"," ROOT
                                    ",\"linux\":{\"namespaces\":[{\"type\":\"mount\"}]}}",
                                    rows[i].version)),
               rows[i].message, "ociVersion %s", rows[i].version);
    is_str(verdict("{\"ociVersion\":\"1.0.0\"}"), "'root' is missing", "root is needed");
}

/* Members of config.json and the error; "" if they are valid. */
static const struct {
    const char *members, *message;
} documents[] = {
    {PROCESS, ""},
    {"\"process\":{\"cwd\":\"/\"}", "process.args: at least one argument is needed"},
    {"\"process\":{\"args\":[\"\"],\"cwd\":\"/\"}", ""},
    {"\"process\":{\"args\":[\"a\"]}", "process: 'cwd' is missing"},
    {"\"process\":{\"args\":[\"a\"],\"cwd\":\"a\"}", "process.cwd: 'a' is not an absolute path"},
    {"\"process\":{\"args\":[\"a\"],\"cwd\":\"/\",\"env\":[\"A=1\",\"B\",\"C=\"]}", ""},
    {"\"process\":{\"args\":[\"a\"],\"cwd\":\"/\",\"env\":[\"A=1\",\"=2\"]}", ""},
    {"\"process\":{\"args\":[\"a\"],\"cwd\":\"/\",\"apparmorProfile\":\"a\\nb\"}",
     "process.apparmorProfile: contains a control character"},
    {"\"process\":{\"args\":[\"a\"],\"cwd\":\"/\",\"selinuxLabel\":\"a\\tb\"}",
     "process.selinuxLabel: contains a control character"},
    {"\"process\":{\"args\":[\"a\"],\"cwd\":\"/"
     "\",\"rlimits\":[{\"type\":\"RLIMIT_CPU\",\"hard\":1,\"soft\":2}]}",
     "process.rlimits[0].soft: 2 is above the hard limit 1"},
    {"\"process\":{\"args\":[\"a\"],\"cwd\":\"/"
     "\",\"rlimits\":[{\"type\":\"RLIMIT_CPU\",\"hard\":1,\"soft\":1},{\"type\":\"RLIMIT_CPU\",\"hard\":1,"
     "\"soft\":1}]}",
     "process.rlimits[1]: 'RLIMIT_CPU' is given twice"},
    {"\"process\":{\"args\":[\"a\"],\"cwd\":\"/"
     "\",\"execCPUAffinity\":{\"initial\":\"0-3,7\",\"final\":\"1\"}}",
     ""},
    {"\"process\":{\"args\":[\"a\"],\"cwd\":\"/\",\"execCPUAffinity\":{\"final\":\"3-1\"}}",
     "process.execCPUAffinity.final: '3-1' is not a list of CPUs such as \"0-3,7\""},
    {"\"hooks\":{\"createRuntime\":[{\"path\":\"/a\",\"env\":[\"A=1\"]}]}", ""},
    {"\"hooks\":{\"createRuntime\":[{\"path\":\"/a\"},{\"path\":\"b\"}]}",
     "hooks.createRuntime[1].path: 'b' is not an absolute path"},
    {"\"hooks\":{\"poststop\":[{\"path\":\"/a\",\"env\":[\"A\"]}]}",
     "hooks.poststop[0].env[0]: not of the form name=value"},
    {"\"annotations\":{\"\":\"1\"}", "annotations: a key is empty"},
    {"\"mounts\":[{\"destination\":\"/a\",\"uidMappings\":[{\"containerID\":0,\"hostID\":0,\"size\":1}]}]",
     "mounts[0]: uidMappings needs gidMappings"},
    {"\"mounts\":[{\"destination\":\"/a\",\"gidMappings\":[{\"containerID\":0,\"hostID\":0,\"size\":1}]}]",
     "mounts[0]: gidMappings needs uidMappings"},
    {"\"mounts\":[{\"destination\":\"/"
     "a\",\"uidMappings\":[{\"containerID\":0,\"hostID\":0,\"size\":0}],\"gidMappings\":[{\"containerID\":0,"
     "\"hostID\":0,\"size\":1}]}]",
     "mounts[0].uidMappings[0].size: must not be 0"},
    {"\"hostname\":\"0123456789012345678901234567890123456789012345678901234567890123\"", ""},
    {"\"hostname\":\"01234567890123456789012345678901234567890123456789012345678901234\"",
     "hostname: longer than 64 bytes"},
    {"\"domainname\":\"01234567890123456789012345678901234567890123456789012345678901234\"",
     "domainname: longer than 64 bytes"},
};

static void test_documents(void)
{
    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++)
        is_str(verdict_document(documents[i].members), documents[i].message, "%s", documents[i].members);
}

static void test_scheduler(void)
{
    static const struct {
        const char *members, *message;
    } rows[] = {
        {"\"SCHED_OTHER\",\"nice\":-20", ""},
        {"\"SCHED_BATCH\",\"nice\":19,\"priority\":0", ""},
        {"\"SCHED_IDLE\",\"nice\":1", ""},
        {"\"SCHED_FIFO\",\"priority\":99", ""},
        {"\"SCHED_FIFO\"", "process.scheduler.priority: SCHED_FIFO needs a priority from 1 to 99"},
        {"\"SCHED_RR\",\"priority\":1,\"nice\":1", ""},
        {"\"SCHED_OTHER\",\"priority\":1", "process.scheduler.priority: has no meaning for SCHED_OTHER"},
        {"\"SCHED_OTHER\",\"runtime\":1",
         "process.scheduler: runtime, deadline and period have no meaning for SCHED_OTHER"},
        {"\"SCHED_DEADLINE\",\"runtime\":1,\"deadline\":2,\"period\":2", ""},
        {"\"SCHED_DEADLINE\",\"runtime\":1,\"deadline\":2", ""},
        {"\"SCHED_DEADLINE\",\"runtime\":3,\"deadline\":2",
         "process.scheduler: SCHED_DEADLINE needs 0 < runtime <= deadline <= period"},
        {"\"SCHED_DEADLINE\"", "process.scheduler: SCHED_DEADLINE needs 0 < runtime <= deadline <= period"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        is_str(verdict_document(arena_printf(
                   &arena, "\"process\":{\"args\":[\"a\"],\"cwd\":\"/\",\"scheduler\":{\"policy\":%s}}",
                   rows[i].members)),
               rows[i].message, "scheduler %s", rows[i].members);
}

/* Namespaces besides mount, members of linux, error. */
static const struct {
    const char *namespaces, *members, *message;
} linux_rows[] = {
    {"{\"type\":\"mount\"}", "", "linux.namespaces[1]: 'mount' is given twice"},
    {"{\"type\":\"pid\",\"path\":\"proc/1/ns/pid\"}", "",
     "linux.namespaces[1].path: 'proc/1/ns/pid' is not an absolute path"},

    {"{\"type\":\"user\"}", "", "linux.uidMappings: a new user namespace needs mappings"},
    {"{\"type\":\"user\",\"path\":\"/proc/1/ns/user\"}", "", ""},
    {"{\"type\":\"user\",\"path\":\"/proc/1/ns/user\"}",
     "\"uidMappings\":[{\"containerID\":0,\"hostID\":0,\"size\":1}]", ""},
    {"", "\"gidMappings\":[{\"containerID\":0,\"hostID\":0,\"size\":1}]",
     "linux.gidMappings: needs a user namespace in linux.namespaces"},
    {"{\"type\":\"user\"}",
     "\"uidMappings\":[{\"containerID\":0,\"hostID\":0,\"size\":4294967295}],\"gidMappings\":[{"
     "\"containerID\":0,\"hostID\":1,\"size\":4294967294}]",
     ""},
    {"{\"type\":\"user\"}", "\"uidMappings\":[{\"containerID\":0,\"hostID\":1,\"size\":4294967295}]",
     "linux.uidMappings[0]: goes beyond the last id"},
    {"{\"type\":\"user\"}",
     "\"uidMappings\":[{\"containerID\":0,\"hostID\":100,\"size\":10},{\"containerID\":10,\"hostID\":109,"
     "\"size\":1}]",
     "linux.uidMappings[1]: overlaps with linux.uidMappings[0]"},
    {"{\"type\":\"user\"}",
     "\"uidMappings\":[{\"containerID\":5,\"hostID\":100,\"size\":1},{\"containerID\":0,\"hostID\":200,"
     "\"size\":6}]",
     "linux.uidMappings[1]: overlaps with linux.uidMappings[0]"},

    {"{\"type\":\"time\"}", "\"timeOffsets\":{\"boottime\":{\"secs\":1}}", ""},
    {"", "\"timeOffsets\":{\"boottime\":{\"secs\":1}}",
     "linux.timeOffsets.boottime: needs a new time namespace in linux.namespaces"},
    {"{\"type\":\"time\",\"path\":\"/t\"}", "\"timeOffsets\":{\"boottime\":{\"secs\":1}}",
     "linux.timeOffsets.boottime: needs a new time namespace in linux.namespaces"},
    {"{\"type\":\"time\"}", "\"timeOffsets\":{\"realtime\":{\"secs\":1}}",
     "linux.timeOffsets: unknown clock 'realtime'"},

    {"", "\"devices\":[{\"type\":\"c\",\"path\":\"/dev/a\",\"major\":1,\"minor\":3,\"fileMode\":8630}]", ""},
    {"", "\"devices\":[{\"type\":\"p\",\"path\":\"/dev/a\"}]", ""},
    {"", "\"devices\":[{\"type\":\"b\",\"path\":\"/dev/a\",\"major\":1}]",
     "linux.devices[0]: type 'b' needs major and minor"},
    {"", "\"devices\":[{\"type\":\"p\",\"path\":\"a\"}]",
     "linux.devices[0].path: 'a' is not an absolute path"},
    {"", "\"devices\":[{\"type\":\"b\",\"path\":\"/dev/a\",\"major\":1,\"minor\":3,\"fileMode\":8630}]",
     "linux.devices[0].fileMode: contradicts the type 'b'"},

    {"{\"type\":\"network\"}", "\"netDevices\":{\"eth0\":{\"name\":\"eth1\"},\"a\":{}}", ""},
    {"", "\"netDevices\":{\"eth0\":{}}", "linux.netDevices: needs a network namespace in linux.namespaces"},
    {"{\"type\":\"network\"}", "\"netDevices\":{\"0123456789abcdef\":{}}",
     "linux.netDevices: '0123456789abcdef' is not the name of a network device"},
    {"{\"type\":\"network\"}", "\"netDevices\":{\"a\":{\"name\":\"eth%d\"}}",
     "linux.netDevices.a.name: 'eth%d' is not the name of a network device"},
    {"{\"type\":\"network\"}", "\"netDevices\":{\"a\":{\"name\":\"../b\"}}",
     "linux.netDevices.a.name: '../b' is not the name of a network device"},
    {"{\"type\":\"network\"}", "\"netDevices\":{\"\":{}}",
     "linux.netDevices: '' is not the name of a network device"},
    {"{\"type\":\"network\"}", "\"netDevices\":{\".\":{}}",
     "linux.netDevices: '.' is not the name of a network device"},
    {"{\"type\":\"network\"}", "\"netDevices\":{\"a b\":{}}",
     "linux.netDevices: 'a b' is not the name of a network device"},
    {"{\"type\":\"network\"}", "\"netDevices\":{\"a:b\":{}}",
     "linux.netDevices: 'a:b' is not the name of a network device"},
    {"{\"type\":\"network\"}", "\"netDevices\":{\"a\":{\"name\":\"b\"},\"b\":{}}",
     "linux.netDevices: two devices would be named 'b'"},

    {"", "\"intelRdt\":{}", "linux.intelRdt: resctrl is not supported: remove the property"},

    {"", "\"memoryPolicy\":{\"mode\":\"MPOL_BIND\",\"nodes\":\"0-1,3\"}", ""},
    {"", "\"memoryPolicy\":{\"mode\":\"MPOL_PREFERRED\",\"nodes\":\"\"}", ""},
    {"", "\"memoryPolicy\":{\"mode\":\"MPOL_BIND\"}", "linux.memoryPolicy.nodes: MPOL_BIND needs nodes"},
    {"", "\"memoryPolicy\":{\"mode\":\"MPOL_LOCAL\",\"nodes\":\"0\"}",
     "linux.memoryPolicy.nodes: has no meaning for MPOL_LOCAL"},
    {"", "\"memoryPolicy\":{\"mode\":\"MPOL_BIND\",\"nodes\":\"0,\"}",
     "linux.memoryPolicy.nodes: '0,' is not a list of nodes such as \"0-1,3\""},
    {"",
     "\"memoryPolicy\":{\"mode\":\"MPOL_BIND\",\"nodes\":\"0\",\"flags\":[\"MPOL_F_STATIC_NODES\",\"MPOL_F_"
     "RELATIVE_NODES\"]}",
     "linux.memoryPolicy.flags: MPOL_F_STATIC_NODES and MPOL_F_RELATIVE_NODES exclude each other"},

    {"", "\"cgroupsPath\":\"system.slice:libpod:abc\"", ""},
    {"", "\"cgroupsPath\":\"/a..b/c\"", ""},
    {"", "\"cgroupsPath\":\"/a/../../b\"",
     "linux.cgroupsPath: '/a/../../b' is not a path below the cgroup root"},
    {"", "\"mountLabel\":\"a\\nb\"", "linux.mountLabel: contains a control character"},
    {"", "\"maskedPaths\":[\"/a\",\"b\"]", "linux.maskedPaths[1]: 'b' is not an absolute path"},
    {"", "\"readonlyPaths\":[\"\"]", "linux.readonlyPaths[0]: '' is not an absolute path"},
    {"", "\"personality\":{\"domain\":\"LINUX\",\"flags\":[\"X\"]}",
     "linux.personality.flags[0]: unknown value 'X'"},
};

static void test_linux(void)
{
    for (size_t i = 0; i < sizeof(linux_rows) / sizeof(linux_rows[0]); i++)
        is_str(verdict_linux(linux_rows[i].namespaces, linux_rows[i].members), linux_rows[i].message, "%s %s",
               linux_rows[i].namespaces, linux_rows[i].members);
    is_str(verdict("{\"ociVersion\":\"1.0.0\"," ROOT
                   ",\"hostname\":\"h\",\"linux\":{\"namespaces\":[{\"type\":\"mount\"}]}}"),
           "hostname: needs a uts namespace in linux.namespaces", "its host name is not either");
    is_str(verdict("{\"ociVersion\":\"1.0.0\"," ROOT
                   ",\"domainname\":\"h\",\"linux\":{\"namespaces\":[{\"type\":\"mount\"}]}}"),
           "domainname: needs a uts namespace in linux.namespaces", "its domain name is not either");
    char *many = arena_strdup(&arena, "\"uidMappings\":[");
    for (int i = 0; i <= 340; i++)
        many = arena_printf(&arena, "%s%s{\"containerID\":%d,\"hostID\":%d,\"size\":1}", many,
                            i > 0 ? "," : "", i, i);
    is_str(verdict_linux("{\"type\":\"user\"}", arena_printf(&arena, "%s]", many)),
           "linux.uidMappings: more than 340 mappings", "no more mappings than the kernel accepts");
}

/* Key, the namespace that it needs (NULL: never allowed), error for one that is never allowed. */
static const struct {
    const char *key, *owner, *message;
} sysctls[] = {
    {"net.ipv4.ip_forward", "network", NULL},
    {"net/ipv4/ip_forward", "network", NULL},
    {"net.ipv4.conf.eth0/1.forwarding", "network", NULL},
    {"net/ipv4/conf/eth0.1/forwarding", "network", NULL},
    {"kernel.shmmax", "ipc", NULL},
    {"kernel/sem", "ipc", NULL},
    {"fs.mqueue.msg_max", "ipc", NULL},
    {"kernel.domainname", "uts", NULL},
    {"kernel.core_pattern", NULL, "belongs to no namespace"},
    {"kernel.shmmaximum", NULL, "belongs to no namespace"},
    {"kernel/sem/../core_pattern", NULL, NULL},
    {"net/../kernel/core_pattern", NULL, NULL},
    {"net./../kernel.core_pattern", NULL, NULL},
    {"net..ipv4", NULL, NULL},
    {"/net/ipv4", NULL, NULL},
    {"net.", NULL, NULL},
    {"", NULL, NULL},
    {"fs.mqueue", NULL, "belongs to no namespace"},
    {"vm.swappiness", NULL, "belongs to no namespace"},
    {"kernel.hostname", NULL, "use 'hostname' for the host name"},
    {"net.a\\nb", NULL, NULL},
};

static void test_sysctl(void)
{
    for (size_t i = 0; i < sizeof(sysctls) / sizeof(sysctls[0]); i++) {
        const char *key = sysctls[i].key, *owner = sysctls[i].owner;
        const char *members = arena_printf(&arena, "\"sysctl\":{\"%s\":\"1\"}", key);
        const char *all = ALL_NAMESPACES ",{\"type\":\"user\",\"path\":\"/u\"}";
        const char *with_all = verdict(arena_printf(
            &arena, "{\"ociVersion\":\"1.3.0\"," ROOT ",\"linux\":{\"namespaces\":[%s],%s}}", all, members));
        if (owner != NULL) {
            is_str(with_all, "", "sysctl %s is allowed", key);
            is_str(verdict_linux("", members),
                   arena_printf(&arena, "linux.sysctl[\"%s\"]: needs a %s namespace in linux.namespaces", key,
                                owner),
                   "... with a %s namespace only", owner);
        } else if (sysctls[i].message != NULL) {
            is_str(with_all, arena_printf(&arena, "linux.sysctl[\"%s\"]: %s", key, sysctls[i].message),
                   "sysctl %s is refused", key);
        } else {
            ok(strstr(with_all, "is not the name of a sysctl") != NULL, "sysctl '%s' is no name", key);
        }
    }
    is_str(verdict_linux("{\"type\":\"network\"}",
                         "\"sysctl\":{\"net.ipv4.ip_forward\":\"1\\nkernel.core_pattern=x\"}"),
           "linux.sysctl[\"net.ipv4.ip_forward\"]: the value contains a newline", "a value is one line");
    is_str(verdict_linux("{\"type\":\"user\",\"path\":\"/u\"}",
                         "\"sysctl\":{\"user.max_net_namespaces\":\"1\"}"),
           "", "user.* belongs to the user namespace");
}

/* linux.resources and the error after "linux.resources."; "" if they are valid. */
static const struct {
    const char *resources, *message;
} resources[] = {
    {"\"memory\":{\"limit\":100,\"swap\":200}", ""},
    {"\"memory\":{\"limit\":100,\"swap\":100}", ""},
    {"\"memory\":{\"limit\":-1,\"swap\":-1}", ""},
    {"\"memory\":{\"swap\":-1}", ""},
    {"\"memory\":{\"swap\":0}", ""},
    {"\"memory\":{\"limit\":-1,\"swap\":5}", ""},
    {"\"memory\":{\"swap\":5}", "memory.swap: needs memory.limit"},
    {"\"memory\":{\"limit\":0,\"swap\":5}", "memory.swap: needs memory.limit"},
    {"\"memory\":{\"limit\":100,\"swap\":99}",
     "memory.swap: 99 is below memory.limit 100 (it counts memory and swap together)"},
    {"\"memory\":{\"swappiness\":0}", "memory.swappiness: not available with cgroup v2"},
    {"\"memory\":{\"kernel\":1}", "memory.kernel: not available with cgroup v2"},
    {"\"memory\":{\"kernel\":-1,\"kernelTCP\":0}", ""},
    {"\"memory\":{\"kernelTCP\":1}", "memory.kernelTCP: not available with cgroup v2"},
    {"\"memory\":{\"disableOOMKiller\":true}", "memory.disableOOMKiller: not available with cgroup v2"},
    {"\"memory\":{\"disableOOMKiller\":false,\"useHierarchy\":true}", ""},
    {"\"memory\":{\"useHierarchy\":false}", "memory.useHierarchy: not available with cgroup v2"},
    {"\"cpu\":{\"shares\":1024,\"quota\":-1,\"period\":100000,\"burst\":1,\"cpus\":\"0-1\",\"mems\":\"\"}",
     ""},
    {"\"cpu\":{\"realtimeRuntime\":1}", "cpu.realtimeRuntime: not available with cgroup v2"},
    {"\"cpu\":{\"realtimePeriod\":1}", "cpu.realtimePeriod: not available with cgroup v2"},
    {"\"cpu\":{\"cpus\":\"0\\n1\"}", "cpu.cpus: contains a control character"},
    {"\"cpu\":{\"mems\":\"0\\n1\"}", "cpu.mems: contains a control character"},
    {"\"pids\":{\"limit\":-1}", ""},
    {"\"pids\":{\"limit\":-2}", "pids.limit: -2 is neither a number of processes nor -1, which is no limit"},
    {"\"blockIO\":{\"weight\":0,\"weightDevice\":[{\"major\":8,\"minor\":0,\"weight\":1000}]}", ""},
    {"\"blockIO\":{\"weight\":9}", "blockIO.weight: 9 is out of range (10 to 1000)"},
    {"\"blockIO\":{\"weight\":1001}", "blockIO.weight: 1001 is out of range (10 to 1000)"},
    {"\"blockIO\":{\"leafWeight\":10}", "blockIO.leafWeight: not available with cgroup v2"},
    {"\"blockIO\":{\"weightDevice\":[{\"major\":8,\"minor\":0,\"weight\":5}]}",
     "blockIO.weightDevice[0].weight: 5 is out of range (10 to 1000)"},
    {"\"blockIO\":{\"weightDevice\":[{\"major\":8,\"minor\":0,\"leafWeight\":10}]}",
     "blockIO.weightDevice[0].leafWeight: not available with cgroup v2"},
    {"\"hugepageLimits\":[{\"pageSize\":\"64KB\",\"limit\":0},{\"pageSize\":\"1GB\",\"limit\":0}]", ""},
    {"\"hugepageLimits\":[{\"pageSize\":\"2M\",\"limit\":0}]",
     "hugepageLimits[0].pageSize: '2M' is not a size such as \"2MB\""},
    {"\"hugepageLimits\":[{\"pageSize\":\"../2MB\",\"limit\":0}]",
     "hugepageLimits[0].pageSize: '../2MB' is not a size such as \"2MB\""},
    {"\"rdma\":{\"mlx5_0\":{\"hcaObjects\":1}}", ""},
    {"\"rdma\":{\"mlx5 0\":{\"hcaObjects\":1}}", "rdma: 'mlx5 0' is not the name of a device"},
    {"\"rdma\":{\"mlx5_0\":{}}", "rdma.mlx5_0: needs hcaHandles or hcaObjects"},
    {"\"network\":{\"priorities\":[]}", "network: not available with cgroup v2"},
    {"\"unified\":{\"memory.high\":\"1\",\"hugetlb.2MB.max\":\"\"}", ""},
    {"\"unified\":{\"\":\"1\"}", "unified: '' is not the name of a cgroup file such as \"memory.high\""},
    {"\"unified\":{\"../a.b\":\"1\"}",
     "unified: '../a.b' is not the name of a cgroup file such as \"memory.high\""},
    {"\"unified\":{\"memory\":\"1\"}",
     "unified: 'memory' is not the name of a cgroup file such as \"memory.high\""},
    {"\"unified\":{\".a\":\"1\"}", "unified: '.a' is not the name of a cgroup file such as \"memory.high\""},
    {"\"devices\":[{\"allow\":true,\"access\":\"mrw\"}]", ""},
    {"\"devices\":[{\"allow\":true,\"access\":\"rx\"}]",
     "devices[0].access: 'rx' has letters other than r, w and m"},
};

static void test_resources(void)
{
    for (size_t i = 0; i < sizeof(resources) / sizeof(resources[0]); i++) {
        const char *text = arena_printf(&arena, "{%s}", resources[i].resources);
        const char *message = *resources[i].message != '\0'
                                  ? arena_printf(&arena, "linux.resources.%s", resources[i].message)
                                  : "";
        is_str(verdict_linux("", arena_printf(&arena, "\"resources\":%s", text)), message, "resources %s",
               text);
    }
    struct error error = {0};
    struct spec_resources *alone;
    static const char text[] = "{\"memory\":{\"swappiness\":1}}";
    ok(spec_parse_resources(&arena, text, strlen(text), &alone, &error) == 0 &&
           spec_validate_resources(alone, &error) < 0,
       "resources of an update are checked alike");
    is_str(error.text, "linux.resources.memory.swappiness: not available with cgroup v2",
           "... with the same text");
}

int main(void)
{
    test_version();
    test_documents();
    test_scheduler();
    test_linux();
    test_sysctl();
    test_resources();
    arena_free(&arena);
    return done_testing();
}
