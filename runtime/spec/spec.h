/* config.json as structures (runtime-spec 1.3), which the tables of tables.c fill. Everything lives in the
 * arena of its decoder. An absent string or object is NULL, an absent list has count 0, and an absent number
 * has set == false. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct error;

/* Range of supported versions of runtime-spec. */
#define SPEC_VERSION_MIN "1.0.0"
#define SPEC_VERSION     "1.3.0"

struct opt_u64 {
    bool set;
    uint64_t value;
};
struct opt_i64 {
    bool set;
    int64_t value;
};
struct opt_bool {
    bool set;
    bool value;
};

struct str_list {
    const char **items; /* NULL after the last item, as execve(2) needs it; NULL itself for an empty list */
    size_t count;
};
struct u64_list {
    uint64_t *items;
    size_t count;
};

struct str_pair {
    const char *key, *value;
};
struct str_map {
    struct str_pair *items;
    size_t count;
};

/* A JSON value in its original bytes, for parts that are compiled and cached (seccomp). */
struct json_text {
    const char *data; /* not NUL-terminated; NULL if absent */
    size_t size;
};

struct spec_root {
    const char *path;
    bool readonly;
};

struct spec_idmap {
    uint32_t container_id, host_id, size;
};
struct spec_idmaps {
    struct spec_idmap *items;
    size_t count;
};

struct spec_mount {
    const char *destination, *type, *source;
    struct str_list options;
    struct spec_idmaps uid_mappings, gid_mappings;
};
struct spec_mounts {
    struct spec_mount *items;
    size_t count;
};

struct spec_user {
    uint32_t uid, gid;
    struct opt_u64 umask;
    struct {
        uint32_t *items;
        size_t count;
    } additional_gids;
    const char *username;
};

struct spec_capabilities {
    struct str_list bounding, effective, inheritable, permitted, ambient;
};

struct spec_rlimit {
    const char *type; /* "RLIMIT_…" */
    uint64_t hard, soft;
};
struct spec_rlimits {
    struct spec_rlimit *items;
    size_t count;
};

struct spec_scheduler {
    const char *policy; /* "SCHED_…" */
    struct opt_i64 nice, priority;
    struct str_list flags; /* "SCHED_FLAG_…" */
    struct opt_u64 runtime, deadline, period;
};

struct spec_io_priority {
    const char *class; /* "IOPRIO_CLASS_…" */
    struct opt_i64 priority;
};

struct spec_cpu_affinity {
    const char *initial, *final; /* CPU lists: "0-3,7" */
};

struct spec_process {
    bool terminal;
    struct {
        uint64_t height, width;
    } console_size;
    struct spec_user user;
    struct str_list args, env;
    const char *cwd;
    struct spec_capabilities *capabilities;
    struct spec_rlimits rlimits;
    bool no_new_privileges;
    const char *apparmor_profile, *selinux_label;
    struct opt_i64 oom_score_adj;
    struct spec_scheduler *scheduler;
    struct spec_io_priority *io_priority;
    struct spec_cpu_affinity *exec_cpu_affinity;
};

struct spec_hook {
    const char *path;
    struct str_list args, env;
    bool has_env;           /* an empty env differs from a missing one */
    struct opt_i64 timeout; /* seconds, at least 1 */
};
struct spec_hook_list {
    struct spec_hook *items;
    size_t count;
};
struct spec_hooks {
    struct spec_hook_list prestart, create_runtime, create_container, start_container, poststart, poststop;
};

struct spec_namespace {
    const char *type; /* "pid", "network", "mount", "ipc", "uts", "user", "cgroup", "time" */
    const char *path; /* NULL: a new one */
};
struct spec_namespaces {
    struct spec_namespace *items;
    size_t count;
};

struct spec_device {
    const char *type; /* "c", "u", "b", "p" */
    const char *path;
    struct opt_i64 major, minor;
    struct opt_u64 file_mode;
    struct opt_u64 uid, gid;
};
struct spec_devices {
    struct spec_device *items;
    size_t count;
};

/* Resources. cgroup/resources.c converts them to files of cgroup v2. */
struct spec_device_rule {
    bool allow;
    const char *type;            /* "a", "b", "c"; NULL: "a" */
    struct opt_i64 major, minor; /* unset or -1: any */
    const char *access;          /* of "rwm"; NULL: all */
};
struct spec_memory {
    struct opt_i64 limit, reservation, swap, kernel, kernel_tcp;
    struct opt_u64 swappiness;
    struct opt_bool disable_oom_killer, use_hierarchy, check_before_update;
};
struct spec_cpu {
    struct opt_u64 shares, burst, period, realtime_period;
    struct opt_i64 quota, realtime_runtime, idle;
    const char *cpus, *mems;
};
struct spec_weight_device {
    int64_t major, minor;
    struct opt_u64 weight, leaf_weight;
};
struct spec_throttle_device {
    int64_t major, minor;
    uint64_t rate;
};
struct spec_throttle_devices {
    struct spec_throttle_device *items;
    size_t count;
};
struct spec_block_io {
    struct opt_u64 weight, leaf_weight;
    struct {
        struct spec_weight_device *items;
        size_t count;
    } weight_device;
    struct spec_throttle_devices throttle_read_bps, throttle_write_bps, throttle_read_iops,
        throttle_write_iops;
};
struct spec_hugepage_limit {
    const char *page_size; /* "2MB" */
    uint64_t limit;        /* bytes */
};
struct spec_rdma {
    const char *device;
    struct opt_u64 hca_handles, hca_objects;
};
struct spec_resources {
    struct {
        struct spec_device_rule *items;
        size_t count;
    } devices;
    struct spec_memory *memory;
    struct spec_cpu *cpu;
    struct opt_i64 pids_limit;
    struct spec_block_io *block_io;
    struct {
        struct spec_hugepage_limit *items;
        size_t count;
    } hugepage_limits;
    struct {
        struct spec_rdma *items;
        size_t count;
    } rdma;
    bool has_network; /* linux.resources.network has a classID or priorities, which only cgroup v1 supports */
    struct str_map unified;
};

struct spec_seccomp_arg {
    uint64_t index, value, value_two;
    const char *op; /* "SCMP_CMP_…" */
};
struct spec_seccomp_rule {
    struct str_list names;
    const char *action; /* "SCMP_ACT_…" */
    struct opt_i64 errno_ret;
    struct {
        struct spec_seccomp_arg *items;
        size_t count;
    } args;
};
struct spec_seccomp {
    const char *default_action;
    struct opt_i64 default_errno_ret;
    struct str_list architectures; /* "SCMP_ARCH_…" */
    struct str_list flags;         /* "SECCOMP_FILTER_FLAG_…" */
    const char *listener_path, *listener_metadata;
    struct {
        struct spec_seccomp_rule *items;
        size_t count;
    } syscalls;
};

struct spec_memory_policy {
    const char *mode;      /* "MPOL_…" */
    const char *nodes;     /* "0-1,3" */
    struct str_list flags; /* "MPOL_F_…" */
};

struct spec_net_device {
    const char *name;     /* on the host */
    const char *new_name; /* in the container; NULL: the same */
};

struct spec_personality {
    const char *domain; /* "LINUX", "LINUX32" */
    struct str_list flags;
};

struct spec_time_offset {
    const char *clock; /* "monotonic", "boottime" */
    int64_t secs;
    uint32_t nanosecs;
};

struct spec_linux {
    struct spec_namespaces namespaces;
    struct spec_idmaps uid_mappings, gid_mappings;
    struct {
        struct spec_time_offset *items;
        size_t count;
    } time_offsets;
    struct spec_devices devices;
    struct {
        struct spec_net_device *items;
        size_t count;
    } net_devices;
    const char *cgroups_path;
    struct spec_resources *resources;
    struct json_text resources_text;
    bool has_intel_rdt; /* which is refused */
    struct spec_memory_policy *memory_policy;
    struct str_map sysctl;
    /* spec_parse keeps only the text. spec_parse_seccomp makes structures of it, which is unnecessary if the
     * cache has the compiled program of this very text. */
    struct json_text seccomp_text;
    const char *rootfs_propagation; /* "slave", "private", "shared", "unbindable" and their r-forms */
    struct str_list masked_paths, readonly_paths;
    const char *mount_label;
    struct spec_personality *personality;
};

struct spec {
    const char *oci_version;
    const char *hostname, *domainname;
    struct spec_root *root;
    struct spec_mounts mounts;
    struct spec_process *process;
    struct spec_hooks hooks;
    struct str_map annotations;
    struct spec_linux *linux_; /* never NULL after spec_parse */
};

/* Parse config.json. Unknown properties are ignored, as the specification requires (extensibility). Wrong
 * types, unknown enumeration values, numbers out of range, duplicate keys and NULs in strings are errors with
 * the JSON path ("config.json: linux.resources.memory.limit: …"). A text that is not JSON is an error with
 * its line ("config.json: line 3: …"). Mount destinations become absolute. `text` must outlive the spec,
 * because json_text points into it. 0 or negative errno. */
int spec_parse(struct arena *a, const char *text, size_t size, struct spec **out, struct error *err);

/* Parse a process object alone (exec --process). Paths in errors begin with "process". 0 or negative errno.
 * */
int spec_parse_process(struct arena *a, const char *text, size_t size, struct spec_process **out,
                       struct error *err);

/* Parse a resources object alone (update --resources). Paths in errors begin with "linux.resources". 0 or
 * negative errno. */
int spec_parse_resources(struct arena *a, const char *text, size_t size, struct spec_resources **out,
                         struct error *err);

/* Decode the seccomp object of linux.seccomp_text. Paths in errors begin with "linux.seccomp". 0 or negative
 * errno. */
int spec_parse_seccomp(struct arena *a, struct json_text text, struct spec_seccomp **out, struct error *err);

/* Check the rules that the tables cannot express, before any side effect: contradictions, and properties that
 * this runtime cannot apply. Examples are duplicate namespaces, mappings without a user namespace, a sysctl
 * outside its namespace, and relative paths. 0 or -EINVAL; err has the JSON path. */
int spec_validate(const struct spec *spec, struct error *err);
int spec_validate_process(const struct spec_process *process, struct error *err);
int spec_validate_resources(const struct spec_resources *resources, struct error *err);

/* Return the value of a key, or NULL. */
const char *str_map_get(const struct str_map *map, const char *key);

/* Return whether one of the mount's options is this word. */
bool spec_mount_has_option(const struct spec_mount *mount, const char *word);

/* Return whether the mount is a bind: by its type, or by one of the options "bind" and "rbind". */
bool spec_mount_is_bind(const struct spec_mount *mount);

/* Return the value of an annotation, or NULL. */
const char *spec_annotation(const struct spec *spec, const char *key);

/* Return the entry of the namespace of this type, or NULL. */
const struct spec_namespace *spec_namespace(const struct spec *spec, const char *type);

/* Return the type of the namespace that a key of linux.sysctl belongs to, or NULL if it belongs to none. */
const char *spec_sysctl_owner(const char *key);

/* Return whether the container gets a new namespace of this type (an entry without a path). */
bool spec_new_namespace(const struct spec *spec, const char *type);
