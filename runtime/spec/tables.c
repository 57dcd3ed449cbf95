/* One table for each object of config.json (runtime-spec 1.3), in the order of the specification. A row
 * names the property, the member that it fills and the allowed values. The macros refuse a member of another
 * type. */
#include "spec/tables.h"

#include <stddef.h>

#include "spec/spec.h"

/* Return the offset of a member that must have this type. */
#define MEMBER(object, member, type)                                                                         \
    (offsetof(object, member) +                                                                              \
     0 * sizeof(char[__builtin_types_compatible_p(__typeof__(((object *)0)->member), type) ? 1 : -1]))

#define STRING(name, object, member, ...)                                                                    \
    {                                                                                                        \
        .key = name, .kind = FIELD_STRING, .offset = MEMBER(object, member, const char *), __VA_ARGS__       \
    }
#define BOOL(name, object, member, ...)                                                                      \
    {                                                                                                        \
        .key = name, .kind = FIELD_BOOL, .offset = MEMBER(object, member, bool), __VA_ARGS__                 \
    }
#define OPT_BOOL(name, object, member)                                                                       \
    {                                                                                                        \
        .key = name, .kind = FIELD_OPT_BOOL, .offset = MEMBER(object, member, struct opt_bool)               \
    }

#define NUMBER(name, number_kind, object, member, type, lowest, highest, ...)                                \
    {                                                                                                        \
        .key = name, .kind = number_kind, .offset = MEMBER(object, member, type), .min = lowest,             \
        .max = highest, __VA_ARGS__                                                                          \
    }
#define U32(name, object, member, highest, ...)                                                              \
    NUMBER(name, FIELD_U32, object, member, uint32_t, 0, highest, __VA_ARGS__)
#define U64(name, object, member, highest, ...)                                                              \
    NUMBER(name, FIELD_U64, object, member, uint64_t, 0, highest, __VA_ARGS__)
#define I64(name, object, member, lowest, highest, ...)                                                      \
    NUMBER(name, FIELD_I64, object, member, int64_t, lowest, highest, __VA_ARGS__)
#define OPT_U64(name, object, member, highest)                                                               \
    NUMBER(name, FIELD_OPT_U64, object, member, struct opt_u64, 0, highest, )
#define OPT_I64(name, object, member, lowest, highest)                                                       \
    NUMBER(name, FIELD_OPT_I64, object, member, struct opt_i64, lowest, highest, )

/* Lists: `member` has items and count. */
#define LIST(name, list_kind, object, member, type, ...)                                                     \
    {                                                                                                        \
        .key = name, .kind = list_kind, .offset = MEMBER(object, member.items, type *),                      \
        .count_offset = MEMBER(object, member.count, size_t), __VA_ARGS__                                    \
    }
#define STRINGS(name, object, member, ...)                                                                   \
    LIST(name, FIELD_STRINGS, object, member, const char *, __VA_ARGS__)
#define STRING_MAP(name, object, member)                                                                     \
    LIST(name, FIELD_STRING_MAP, object, member, struct str_pair, .words = NULL)
#define OBJECTS(name, object, member, type, table)                                                           \
    LIST(name, FIELD_LIST, object, member, type, .child = &table)
#define OBJECT_MAP(name, object, member, type, table)                                                        \
    LIST(name, FIELD_OBJECT_MAP, object, member, type, .child = &table)

#define OBJECT(name, object, member, type, table, ...)                                                       \
    {                                                                                                        \
        .key = name, .kind = FIELD_OBJECT, .offset = MEMBER(object, member, type *), .child = &table,        \
        __VA_ARGS__                                                                                          \
    }
/* An object whose structure is a member, not a pointer. */
#define PART(name, object, member, table)                                                                    \
    {                                                                                                        \
        .key = name, .kind = FIELD_INLINE, .offset = offsetof(object, member), .child = &table               \
    }
/* An object whose properties are members of the structure that holds it. */
#define SAME(name, table)                                                                                    \
    {                                                                                                        \
        .key = name, .kind = FIELD_INLINE, .offset = 0, .child = &table                                      \
    }
#define TEXT(name, object, member)                                                                           \
    {                                                                                                        \
        .key = name, .kind = FIELD_TEXT, .offset = MEMBER(object, member, struct json_text)                  \
    }
#define PRESENT(name, object, member)                                                                        \
    {                                                                                                        \
        .key = name, .kind = FIELD_PRESENT, .offset = MEMBER(object, member, bool)                           \
    }

#define REQUIRED   .flags = FIELD_REQUIRED
#define NEEDED     .flags = FIELD_REQUIRED | FIELD_NOT_EMPTY
#define NOT_EMPTY  .flags = FIELD_NOT_EMPTY
#define EMPTY_NULL .flags = FIELD_EMPTY_NULL
#define ANY        .words = NULL

#define SCHEMA(table_fields, object)                                                                         \
    {                                                                                                        \
        .fields = table_fields, .count = sizeof(table_fields) / sizeof((table_fields)[0]),                   \
        .size = sizeof(object)                                                                               \
    }
#define MAP_SCHEMA(table_fields, object, key_member)                                                         \
    {                                                                                                        \
        .fields = table_fields, .count = sizeof(table_fields) / sizeof((table_fields)[0]),                   \
        .size = sizeof(object), .key_offset = MEMBER(object, key_member, const char *)                       \
    }

/* (uid_t)-1 means "unchanged" to the kernel and is no id. */
#define ID_MAX (UINT32_MAX - 1)

/* root */
static const struct field root_fields[] = {
    STRING("path", struct spec_root, path, NEEDED),
    BOOL("readonly", struct spec_root, readonly),
};
static const struct schema root_schema = SCHEMA(root_fields, struct spec_root);

/* mounts */
static const struct field idmap_fields[] = {
    U32("containerID", struct spec_idmap, container_id, ID_MAX, REQUIRED),
    U32("hostID", struct spec_idmap, host_id, ID_MAX, REQUIRED),
    U32("size", struct spec_idmap, size, UINT32_MAX, REQUIRED),
};
static const struct schema idmap_schema = SCHEMA(idmap_fields, struct spec_idmap);

static const struct field mount_fields[] = {
    STRING("destination", struct spec_mount, destination, NEEDED),
    STRING("type", struct spec_mount, type, EMPTY_NULL),
    STRING("source", struct spec_mount, source, EMPTY_NULL),
    STRINGS("options", struct spec_mount, options, ANY),
    OBJECTS("uidMappings", struct spec_mount, uid_mappings, struct spec_idmap, idmap_schema),
    OBJECTS("gidMappings", struct spec_mount, gid_mappings, struct spec_idmap, idmap_schema),
};
static const struct schema mount_schema = SCHEMA(mount_fields, struct spec_mount);

/* process */
static const struct field console_size_fields[] = {
    U64("height", struct spec_process, console_size.height, UINT16_MAX),
    U64("width", struct spec_process, console_size.width, UINT16_MAX),
};
static const struct schema console_size_schema = SCHEMA(console_size_fields, struct spec_process);

static const struct field user_fields[] = {
    U32("uid", struct spec_user, uid, ID_MAX),
    U32("gid", struct spec_user, gid, ID_MAX),
    OPT_U64("umask", struct spec_user, umask, 0777),
    LIST("additionalGids", FIELD_U32_LIST, struct spec_user, additional_gids, uint32_t, .min = 0,
         .max = ID_MAX),
    STRING("username", struct spec_user, username, EMPTY_NULL),
};
static const struct schema user_schema = SCHEMA(user_fields, struct spec_user);

static const struct field capabilities_fields[] = {
    STRINGS("bounding", struct spec_capabilities, bounding, ANY),
    STRINGS("effective", struct spec_capabilities, effective, ANY),
    STRINGS("inheritable", struct spec_capabilities, inheritable, ANY),
    STRINGS("permitted", struct spec_capabilities, permitted, ANY),
    STRINGS("ambient", struct spec_capabilities, ambient, ANY),
};
static const struct schema capabilities_schema = SCHEMA(capabilities_fields, struct spec_capabilities);

/* getrlimit(2) */
static const char *const rlimit_types[] = {
    "RLIMIT_AS",      "RLIMIT_CORE",     "RLIMIT_CPU",        "RLIMIT_DATA",   "RLIMIT_FSIZE", "RLIMIT_LOCKS",
    "RLIMIT_MEMLOCK", "RLIMIT_MSGQUEUE", "RLIMIT_NICE",       "RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_RSS",
    "RLIMIT_RTPRIO",  "RLIMIT_RTTIME",   "RLIMIT_SIGPENDING", "RLIMIT_STACK",  NULL,
};
static const struct field rlimit_fields[] = {
    STRING("type", struct spec_rlimit, type, REQUIRED, .words = rlimit_types),
    U64("hard", struct spec_rlimit, hard, UINT64_MAX, REQUIRED),
    U64("soft", struct spec_rlimit, soft, UINT64_MAX, REQUIRED),
};
static const struct schema rlimit_schema = SCHEMA(rlimit_fields, struct spec_rlimit);

/* sched(7); SCHED_ISO of the specification has never been implemented by Linux. */
static const char *const scheduler_policies[] = {
    "SCHED_OTHER", "SCHED_FIFO", "SCHED_RR", "SCHED_BATCH", "SCHED_IDLE", "SCHED_DEADLINE", NULL,
};
static const char *const scheduler_flags[] = {
    "SCHED_FLAG_RESET_ON_FORK",  "SCHED_FLAG_RECLAIM",
    "SCHED_FLAG_DL_OVERRUN",     "SCHED_FLAG_KEEP_POLICY",
    "SCHED_FLAG_KEEP_PARAMS",    "SCHED_FLAG_UTIL_CLAMP_MIN",
    "SCHED_FLAG_UTIL_CLAMP_MAX", NULL,
};
static const struct field scheduler_fields[] = {
    STRING("policy", struct spec_scheduler, policy, REQUIRED, .words = scheduler_policies),
    OPT_I64("nice", struct spec_scheduler, nice, -20, 19),
    OPT_I64("priority", struct spec_scheduler, priority, 0, 99),
    STRINGS("flags", struct spec_scheduler, flags, .words = scheduler_flags),
    OPT_U64("runtime", struct spec_scheduler, runtime, UINT64_MAX),
    OPT_U64("deadline", struct spec_scheduler, deadline, UINT64_MAX),
    OPT_U64("period", struct spec_scheduler, period, UINT64_MAX),
};
static const struct schema scheduler_schema = SCHEMA(scheduler_fields, struct spec_scheduler);

static const char *const io_priority_classes[] = {"IOPRIO_CLASS_RT", "IOPRIO_CLASS_BE", "IOPRIO_CLASS_IDLE",
                                                  NULL};
static const struct field io_priority_fields[] = {
    STRING("class", struct spec_io_priority, class, REQUIRED, .words = io_priority_classes),
    OPT_I64("priority", struct spec_io_priority, priority, 0, 7),
};
static const struct schema io_priority_schema = SCHEMA(io_priority_fields, struct spec_io_priority);

static const struct field cpu_affinity_fields[] = {
    STRING("initial", struct spec_cpu_affinity, initial, EMPTY_NULL),
    STRING("final", struct spec_cpu_affinity, final, EMPTY_NULL),
};
static const struct schema cpu_affinity_schema = SCHEMA(cpu_affinity_fields, struct spec_cpu_affinity);

static const struct field process_fields[] = {
    BOOL("terminal", struct spec_process, terminal),
    SAME("consoleSize", console_size_schema),
    PART("user", struct spec_process, user, user_schema),
    STRINGS("args", struct spec_process, args, ANY),
    STRINGS("env", struct spec_process, env, ANY),
    STRING("cwd", struct spec_process, cwd, NOT_EMPTY),
    OBJECT("capabilities", struct spec_process, capabilities, struct spec_capabilities, capabilities_schema),
    OBJECTS("rlimits", struct spec_process, rlimits, struct spec_rlimit, rlimit_schema),
    BOOL("noNewPrivileges", struct spec_process, no_new_privileges),
    STRING("apparmorProfile", struct spec_process, apparmor_profile, EMPTY_NULL),
    STRING("selinuxLabel", struct spec_process, selinux_label, EMPTY_NULL),
    OPT_I64("oomScoreAdj", struct spec_process, oom_score_adj, -1000, 1000),
    OBJECT("scheduler", struct spec_process, scheduler, struct spec_scheduler, scheduler_schema),
    OBJECT("ioPriority", struct spec_process, io_priority, struct spec_io_priority, io_priority_schema),
    OBJECT("execCPUAffinity", struct spec_process, exec_cpu_affinity, struct spec_cpu_affinity,
           cpu_affinity_schema),
};
const struct schema process_schema = SCHEMA(process_fields, struct spec_process);

/* hooks */
static const struct field hook_fields[] = {
    STRING("path", struct spec_hook, path, NEEDED),
    STRINGS("args", struct spec_hook, args, ANY),
    STRINGS("env", struct spec_hook, env, ANY),
    PRESENT("env", struct spec_hook, has_env),
    OPT_I64("timeout", struct spec_hook, timeout, 1, INT32_MAX),
};
static const struct schema hook_schema = SCHEMA(hook_fields, struct spec_hook);

const char *const spec_hook_kinds[] = {
    "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop", NULL,
};
#define HOOKS(name, member) OBJECTS(name, struct spec_hooks, member, struct spec_hook, hook_schema)
static const struct field hooks_fields[] = {
    HOOKS("prestart", prestart),
    HOOKS("createRuntime", create_runtime),
    HOOKS("createContainer", create_container),
    HOOKS("startContainer", start_container),
    HOOKS("poststart", poststart),
    HOOKS("poststop", poststop),
};
static const struct schema hooks_schema = SCHEMA(hooks_fields, struct spec_hooks);

/* linux.namespaces, linux.timeOffsets */
const char *const spec_namespace_types[] = {
    "cgroup", "ipc", "mount", "network", "pid", "time", "user", "uts", NULL,
};
static const struct field namespace_fields[] = {
    STRING("type", struct spec_namespace, type, REQUIRED, .words = spec_namespace_types),
    STRING("path", struct spec_namespace, path, EMPTY_NULL),
};
static const struct schema namespace_schema = SCHEMA(namespace_fields, struct spec_namespace);

static const struct field time_offset_fields[] = {
    I64("secs", struct spec_time_offset, secs, INT64_MIN, INT64_MAX),
    U32("nanosecs", struct spec_time_offset, nanosecs, 999999999),
};
static const struct schema time_offset_schema =
    MAP_SCHEMA(time_offset_fields, struct spec_time_offset, clock);

/* linux.devices, linux.netDevices */
static const char *const device_types[] = {"c", "u", "b", "p", NULL};
static const struct field device_fields[] = {
    STRING("type", struct spec_device, type, REQUIRED, .words = device_types),
    STRING("path", struct spec_device, path, NEEDED),
    OPT_I64("major", struct spec_device, major, 0, UINT32_MAX),
    OPT_I64("minor", struct spec_device, minor, 0, UINT32_MAX),
    OPT_U64("fileMode", struct spec_device, file_mode, 0177777),
    OPT_U64("uid", struct spec_device, uid, ID_MAX),
    OPT_U64("gid", struct spec_device, gid, ID_MAX),
};
static const struct schema device_schema = SCHEMA(device_fields, struct spec_device);

static const struct field net_device_fields[] = {
    STRING("name", struct spec_net_device, new_name, EMPTY_NULL),
};
static const struct schema net_device_schema = MAP_SCHEMA(net_device_fields, struct spec_net_device, name);

/* linux.resources */
static const char *const device_rule_types[] = {"a", "b", "c", NULL};
static const struct field device_rule_fields[] = {
    BOOL("allow", struct spec_device_rule, allow, REQUIRED),
    STRING("type", struct spec_device_rule, type, EMPTY_NULL, .words = device_rule_types),
    OPT_I64("major", struct spec_device_rule, major, -1, UINT32_MAX),
    OPT_I64("minor", struct spec_device_rule, minor, -1, UINT32_MAX),
    STRING("access", struct spec_device_rule, access, EMPTY_NULL),
};
static const struct schema device_rule_schema = SCHEMA(device_rule_fields, struct spec_device_rule);

static const struct field memory_fields[] = {
    OPT_I64("limit", struct spec_memory, limit, -1, INT64_MAX),
    OPT_I64("reservation", struct spec_memory, reservation, -1, INT64_MAX),
    OPT_I64("swap", struct spec_memory, swap, -1, INT64_MAX),
    OPT_I64("kernel", struct spec_memory, kernel, -1, INT64_MAX),
    OPT_I64("kernelTCP", struct spec_memory, kernel_tcp, -1, INT64_MAX),
    OPT_U64("swappiness", struct spec_memory, swappiness, UINT64_MAX),
    OPT_BOOL("disableOOMKiller", struct spec_memory, disable_oom_killer),
    OPT_BOOL("useHierarchy", struct spec_memory, use_hierarchy),
    OPT_BOOL("checkBeforeUpdate", struct spec_memory, check_before_update),
};
static const struct schema memory_schema = SCHEMA(memory_fields, struct spec_memory);

static const struct field cpu_fields[] = {
    OPT_U64("shares", struct spec_cpu, shares, UINT64_MAX),
    OPT_I64("quota", struct spec_cpu, quota, INT64_MIN, INT64_MAX),
    OPT_U64("burst", struct spec_cpu, burst, UINT64_MAX),
    OPT_U64("period", struct spec_cpu, period, UINT64_MAX),
    OPT_I64("realtimeRuntime", struct spec_cpu, realtime_runtime, INT64_MIN, INT64_MAX),
    OPT_U64("realtimePeriod", struct spec_cpu, realtime_period, UINT64_MAX),
    STRING("cpus", struct spec_cpu, cpus),
    STRING("mems", struct spec_cpu, mems),
    OPT_I64("idle", struct spec_cpu, idle, 0, 1),
};
static const struct schema cpu_schema = SCHEMA(cpu_fields, struct spec_cpu);

static const struct field pids_fields[] = {
    OPT_I64("limit", struct spec_resources, pids_limit, INT64_MIN, INT64_MAX),
};
static const struct schema pids_schema = SCHEMA(pids_fields, struct spec_resources);

static const struct field weight_device_fields[] = {
    I64("major", struct spec_weight_device, major, 0, UINT32_MAX, REQUIRED),
    I64("minor", struct spec_weight_device, minor, 0, UINT32_MAX, REQUIRED),
    OPT_U64("weight", struct spec_weight_device, weight, UINT16_MAX),
    OPT_U64("leafWeight", struct spec_weight_device, leaf_weight, UINT16_MAX),
};
static const struct schema weight_device_schema = SCHEMA(weight_device_fields, struct spec_weight_device);

static const struct field throttle_device_fields[] = {
    I64("major", struct spec_throttle_device, major, 0, UINT32_MAX, REQUIRED),
    I64("minor", struct spec_throttle_device, minor, 0, UINT32_MAX, REQUIRED),
    U64("rate", struct spec_throttle_device, rate, UINT64_MAX, REQUIRED),
};
static const struct schema throttle_device_schema =
    SCHEMA(throttle_device_fields, struct spec_throttle_device);

#define THROTTLE(name, member)                                                                               \
    OBJECTS(name, struct spec_block_io, member, struct spec_throttle_device, throttle_device_schema)
static const struct field block_io_fields[] = {
    OPT_U64("weight", struct spec_block_io, weight, UINT16_MAX),
    OPT_U64("leafWeight", struct spec_block_io, leaf_weight, UINT16_MAX),
    OBJECTS("weightDevice", struct spec_block_io, weight_device, struct spec_weight_device,
            weight_device_schema),
    THROTTLE("throttleReadBpsDevice", throttle_read_bps),
    THROTTLE("throttleWriteBpsDevice", throttle_write_bps),
    THROTTLE("throttleReadIOPSDevice", throttle_read_iops),
    THROTTLE("throttleWriteIOPSDevice", throttle_write_iops),
};
static const struct schema block_io_schema = SCHEMA(block_io_fields, struct spec_block_io);

static const struct field hugepage_fields[] = {
    STRING("pageSize", struct spec_hugepage_limit, page_size, NEEDED),
    U64("limit", struct spec_hugepage_limit, limit, UINT64_MAX, REQUIRED),
};
static const struct schema hugepage_schema = SCHEMA(hugepage_fields, struct spec_hugepage_limit);

static const struct field rdma_fields[] = {
    OPT_U64("hcaHandles", struct spec_rdma, hca_handles, UINT32_MAX),
    OPT_U64("hcaObjects", struct spec_rdma, hca_objects, UINT32_MAX),
};
static const struct schema rdma_schema = MAP_SCHEMA(rdma_fields, struct spec_rdma, device);

static const struct field network_fields[] = {
    PRESENT("classID", struct spec_resources, has_network),
    PRESENT("priorities", struct spec_resources, has_network),
};
static const struct schema network_schema = SCHEMA(network_fields, struct spec_resources);

static const struct field resources_fields[] = {
    OBJECTS("devices", struct spec_resources, devices, struct spec_device_rule, device_rule_schema),
    OBJECT("memory", struct spec_resources, memory, struct spec_memory, memory_schema),
    OBJECT("cpu", struct spec_resources, cpu, struct spec_cpu, cpu_schema),
    SAME("pids", pids_schema),
    OBJECT("blockIO", struct spec_resources, block_io, struct spec_block_io, block_io_schema),
    OBJECTS("hugepageLimits", struct spec_resources, hugepage_limits, struct spec_hugepage_limit,
            hugepage_schema),
    OBJECT_MAP("rdma", struct spec_resources, rdma, struct spec_rdma, rdma_schema),
    SAME("network", network_schema),
    STRING_MAP("unified", struct spec_resources, unified),
};
const struct schema resources_schema = SCHEMA(resources_fields, struct spec_resources);

/* linux.seccomp: seccomp(2), seccomp_rule_add(3) */
static const char *const seccomp_actions[] = {
    "SCMP_ACT_KILL",  "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_KILL_THREAD", "SCMP_ACT_TRAP",   "SCMP_ACT_ERRNO",
    "SCMP_ACT_TRACE", "SCMP_ACT_ALLOW",        "SCMP_ACT_LOG",         "SCMP_ACT_NOTIFY", NULL,
};
static const char *const seccomp_operators[] = {
    "SCMP_CMP_NE", "SCMP_CMP_LT", "SCMP_CMP_LE",        "SCMP_CMP_EQ",
    "SCMP_CMP_GE", "SCMP_CMP_GT", "SCMP_CMP_MASKED_EQ", NULL,
};
/* The range of an errnoRet depends on its action, so the compiler of the profile checks it. */
#define ERRNO_RET(name, object, member) OPT_I64(name, object, member, INT64_MIN, INT64_MAX)

static const struct field seccomp_arg_fields[] = {
    U64("index", struct spec_seccomp_arg, index, 5, REQUIRED),
    U64("value", struct spec_seccomp_arg, value, UINT64_MAX, REQUIRED),
    U64("valueTwo", struct spec_seccomp_arg, value_two, UINT64_MAX),
    STRING("op", struct spec_seccomp_arg, op, REQUIRED, .words = seccomp_operators),
};
static const struct schema seccomp_arg_schema = SCHEMA(seccomp_arg_fields, struct spec_seccomp_arg);

static const struct field seccomp_rule_fields[] = {
    STRINGS("names", struct spec_seccomp_rule, names, REQUIRED),
    STRING("action", struct spec_seccomp_rule, action, REQUIRED, .words = seccomp_actions),
    ERRNO_RET("errnoRet", struct spec_seccomp_rule, errno_ret),
    OBJECTS("args", struct spec_seccomp_rule, args, struct spec_seccomp_arg, seccomp_arg_schema),
};
static const struct schema seccomp_rule_schema = SCHEMA(seccomp_rule_fields, struct spec_seccomp_rule);

/* The set of architectures and flags depends on libseccomp and the kernel. The compiler of the profile
 * refuses unsupported ones. */
static const struct field seccomp_fields[] = {
    STRING("defaultAction", struct spec_seccomp, default_action, REQUIRED, .words = seccomp_actions),
    ERRNO_RET("defaultErrnoRet", struct spec_seccomp, default_errno_ret),
    STRINGS("architectures", struct spec_seccomp, architectures, ANY),
    STRINGS("flags", struct spec_seccomp, flags, ANY),
    STRING("listenerPath", struct spec_seccomp, listener_path, EMPTY_NULL),
    STRING("listenerMetadata", struct spec_seccomp, listener_metadata, EMPTY_NULL),
    OBJECTS("syscalls", struct spec_seccomp, syscalls, struct spec_seccomp_rule, seccomp_rule_schema),
};
const struct schema seccomp_schema = SCHEMA(seccomp_fields, struct spec_seccomp);

/* linux.memoryPolicy, linux.personality */
/* set_mempolicy(2) */
const char *const spec_memory_policy_modes[] = {
    "MPOL_BIND",      "MPOL_DEFAULT",        "MPOL_INTERLEAVE",          "MPOL_LOCAL",
    "MPOL_PREFERRED", "MPOL_PREFERRED_MANY", "MPOL_WEIGHTED_INTERLEAVE", NULL,
};
const char *const spec_memory_policy_flags[] = {
    "MPOL_F_NUMA_BALANCING",
    "MPOL_F_RELATIVE_NODES",
    "MPOL_F_STATIC_NODES",
    NULL,
};
static const struct field memory_policy_fields[] = {
    STRING("mode", struct spec_memory_policy, mode, REQUIRED, .words = spec_memory_policy_modes),
    STRING("nodes", struct spec_memory_policy, nodes, EMPTY_NULL),
    STRINGS("flags", struct spec_memory_policy, flags, .words = spec_memory_policy_flags),
};
static const struct schema memory_policy_schema = SCHEMA(memory_policy_fields, struct spec_memory_policy);

static const char *const personality_domains[] = {"LINUX", "LINUX32", NULL};
static const struct field personality_fields[] = {
    STRING("domain", struct spec_personality, domain, REQUIRED, .words = personality_domains),
    STRINGS("flags", struct spec_personality, flags, ANY),
};
static const struct schema personality_schema = SCHEMA(personality_fields, struct spec_personality);

/* linux */
static const char *const propagations[] = {
    "shared", "slave", "private", "unbindable", "rshared", "rslave", "rprivate", "runbindable", NULL,
};
static const struct field linux_fields[] = {
    OBJECTS("namespaces", struct spec_linux, namespaces, struct spec_namespace, namespace_schema),
    OBJECTS("uidMappings", struct spec_linux, uid_mappings, struct spec_idmap, idmap_schema),
    OBJECTS("gidMappings", struct spec_linux, gid_mappings, struct spec_idmap, idmap_schema),
    OBJECT_MAP("timeOffsets", struct spec_linux, time_offsets, struct spec_time_offset, time_offset_schema),
    OBJECTS("devices", struct spec_linux, devices, struct spec_device, device_schema),
    OBJECT_MAP("netDevices", struct spec_linux, net_devices, struct spec_net_device, net_device_schema),
    STRING("cgroupsPath", struct spec_linux, cgroups_path, EMPTY_NULL),
    OBJECT("resources", struct spec_linux, resources, struct spec_resources, resources_schema),
    TEXT("resources", struct spec_linux, resources_text),
    PRESENT("intelRdt", struct spec_linux, has_intel_rdt),
    OBJECT("memoryPolicy", struct spec_linux, memory_policy, struct spec_memory_policy, memory_policy_schema),
    STRING_MAP("sysctl", struct spec_linux, sysctl),
    TEXT("seccomp", struct spec_linux, seccomp_text),
    STRING("rootfsPropagation", struct spec_linux, rootfs_propagation, EMPTY_NULL, .words = propagations),
    STRINGS("maskedPaths", struct spec_linux, masked_paths, ANY),
    STRINGS("readonlyPaths", struct spec_linux, readonly_paths, ANY),
    STRING("mountLabel", struct spec_linux, mount_label, EMPTY_NULL),
    OBJECT("personality", struct spec_linux, personality, struct spec_personality, personality_schema),
};
static const struct schema linux_schema = SCHEMA(linux_fields, struct spec_linux);

static const struct field spec_fields[] = {
    STRING("ociVersion", struct spec, oci_version, NEEDED),
    OBJECT("root", struct spec, root, struct spec_root, root_schema),
    OBJECTS("mounts", struct spec, mounts, struct spec_mount, mount_schema),
    OBJECT("process", struct spec, process, struct spec_process, process_schema),
    STRING("hostname", struct spec, hostname, EMPTY_NULL),
    STRING("domainname", struct spec, domainname, EMPTY_NULL),
    PART("hooks", struct spec, hooks, hooks_schema),
    STRING_MAP("annotations", struct spec, annotations),
    OBJECT("linux", struct spec, linux_, struct spec_linux, linux_schema),
};
const struct schema spec_schema = SCHEMA(spec_fields, struct spec);
