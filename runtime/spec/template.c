/* A default configuration as tables. Its readers edit it next. */
#include "spec/template.h"

#include <stddef.h>
#include <unistd.h>

#include "base/json_out.h"
#include "spec/spec.h"

enum audience { EVERYONE, PRIVILEGED, ROOTLESS };

/* Strings of a table row end with NULL. */
struct template_mount {
    enum audience audience;
    const char *destination, *type, *source;
    const char *options[8];
};

static const struct template_mount mounts[] = {
    {EVERYONE, "/proc", "proc", "proc", {NULL}},
    {EVERYONE, "/dev", "tmpfs", "tmpfs", {"nosuid", "strictatime", "mode=755", "size=65536k"}},
    /* Group 5 (tty) is not mapped for a single user. */
    {PRIVILEGED,
     "/dev/pts",
     "devpts",
     "devpts",
     {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
    {ROOTLESS,
     "/dev/pts",
     "devpts",
     "devpts",
     {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
    {EVERYONE, "/dev/shm", "tmpfs", "shm", {"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
    {EVERYONE, "/dev/mqueue", "mqueue", "mqueue", {"nosuid", "noexec", "nodev"}},
    {PRIVILEGED, "/sys", "sysfs", "sysfs", {"nosuid", "noexec", "nodev", "ro"}},
    /* A new sysfs belongs to the network namespace, which is the host's. */
    {ROOTLESS, "/sys", "none", "/sys", {"rbind", "nosuid", "noexec", "nodev", "ro"}},
    {EVERYONE, "/sys/fs/cgroup", "cgroup", "cgroup", {"nosuid", "noexec", "nodev", "relatime", "ro"}},
};

static const struct {
    enum audience audience;
    const char *type;
} namespaces[] = {
    {EVERYONE, "pid"},   {PRIVILEGED, "network"}, {EVERYONE, "ipc"},  {EVERYONE, "uts"},
    {EVERYONE, "mount"}, {EVERYONE, "cgroup"},    {ROOTLESS, "user"},
};

static const char *const capabilities[] = {"CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE", NULL};

static const char *const args[] = {"sh", NULL};
static const char *const environment[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "TERM=xterm",
    NULL,
};

/* Podman's lists. */
static const char *const masked_paths[] = {
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/firmware",
    "/sys/fs/selinux",
    "/sys/devices/virtual/powercap",
    NULL,
};
static const char *const readonly_paths[] = {
    "/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", NULL,
};

static bool is_for(enum audience audience, bool rootless)
{
    return audience == EVERYONE || (audience == ROOTLESS) == rootless;
}

static void template_write_strings(struct json_out *out, const char *key, const char *const *strings)
{
    json_out_key(out, key);
    json_out_array_open(out);
    for (; *strings != NULL; strings++)
        json_out_string(out, *strings);
    json_out_array_close(out);
}

static void template_open_map(struct json_out *out, const char *key)
{
    json_out_key(out, key);
    json_out_map_open(out);
}

static void open_array(struct json_out *out, const char *key)
{
    json_out_key(out, key);
    json_out_array_open(out);
}

static void write_process(struct json_out *out)
{
    static const char *const sets[] = {"bounding", "effective", "permitted"};
    template_open_map(out, "process");
    json_out_pair_bool(out, "terminal", true);
    template_open_map(out, "user");
    json_out_pair_u64(out, "uid", 0);
    json_out_pair_u64(out, "gid", 0);
    json_out_map_close(out);
    template_write_strings(out, "args", args);
    template_write_strings(out, "env", environment);
    json_out_pair_string(out, "cwd", "/");
    template_open_map(out, "capabilities");
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        template_write_strings(out, sets[i], capabilities);
    json_out_map_close(out);
    open_array(out, "rlimits");
    json_out_map_open(out);
    json_out_pair_string(out, "type", "RLIMIT_NOFILE");
    json_out_pair_u64(out, "hard", 1024);
    json_out_pair_u64(out, "soft", 1024);
    json_out_map_close(out);
    json_out_array_close(out);
    json_out_pair_bool(out, "noNewPrivileges", true);
    json_out_map_close(out);
}

static void write_mounts(struct json_out *out, bool rootless)
{
    open_array(out, "mounts");
    for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
        const struct template_mount *m = &mounts[i];
        if (!is_for(m->audience, rootless))
            continue;
        json_out_map_open(out);
        json_out_pair_string(out, "destination", m->destination);
        json_out_pair_string(out, "type", m->type);
        json_out_pair_string(out, "source", m->source);
        if (m->options[0] != NULL)
            template_write_strings(out, "options", m->options);
        json_out_map_close(out);
    }
    json_out_array_close(out);
}

static void write_mapping(struct json_out *out, const char *key, uint32_t host_id)
{
    open_array(out, key);
    json_out_map_open(out);
    json_out_pair_u64(out, "containerID", 0);
    json_out_pair_u64(out, "hostID", host_id);
    json_out_pair_u64(out, "size", 1);
    json_out_map_close(out);
    json_out_array_close(out);
}

/* Deny all devices. The runtime itself allows the default ones. */
static void write_device_rules(struct json_out *out)
{
    template_open_map(out, "resources");
    open_array(out, "devices");
    json_out_map_open(out);
    json_out_pair_bool(out, "allow", false);
    json_out_pair_string(out, "access", "rwm");
    json_out_map_close(out);
    json_out_array_close(out);
    json_out_map_close(out);
}

static void template_write_linux(struct json_out *out, bool rootless)
{
    template_open_map(out, "linux");
    if (rootless) {
        write_mapping(out, "uidMappings", geteuid());
        write_mapping(out, "gidMappings", getegid());
    } else {
        write_device_rules(out);
    }
    open_array(out, "namespaces");
    for (size_t i = 0; i < sizeof(namespaces) / sizeof(namespaces[0]); i++) {
        if (!is_for(namespaces[i].audience, rootless))
            continue;
        json_out_map_open(out);
        json_out_pair_string(out, "type", namespaces[i].type);
        json_out_map_close(out);
    }
    json_out_array_close(out);
    template_write_strings(out, "maskedPaths", masked_paths);
    template_write_strings(out, "readonlyPaths", readonly_paths);
    json_out_map_close(out);
}

void spec_template_write(struct json_out *out, bool rootless)
{
    json_out_map_open(out);
    json_out_pair_string(out, "ociVersion", SPEC_VERSION);
    write_process(out);
    template_open_map(out, "root");
    json_out_pair_string(out, "path", "rootfs");
    json_out_pair_bool(out, "readonly", true);
    json_out_map_close(out);
    json_out_pair_string(out, "hostname", "pysbx");
    write_mounts(out, rootless);
    template_write_linux(out, rootless);
    json_out_map_close(out);
}
