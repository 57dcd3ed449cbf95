/* Write the features document. Every list comes from the code that uses it. */
#include "spec/features.h"

#include "base/json_out.h"
#include "spec/tables.h"

static void features_write_list(struct json_out *out, const char *key, struct word_list list)
{
    json_out_key(out, key);
    json_out_array_open(out);
    for (size_t i = 0; i < list.count; i++)
        json_out_string(out, list.items[i]);
    json_out_array_close(out);
}

/* Write a NULL-terminated list of the tables. */
static void write_words(struct json_out *out, const char *key, const char *const *words)
{
    size_t count = 0;
    while (words[count] != NULL)
        count++;
    features_write_list(out, key, (struct word_list){words, count});
}

static void features_open_map(struct json_out *out, const char *key)
{
    json_out_key(out, key);
    json_out_map_open(out);
}

static void write_enabled(struct json_out *out, const char *key, bool enabled)
{
    features_open_map(out, key);
    json_out_pair_bool(out, "enabled", enabled);
    json_out_map_close(out);
}

static void write_cgroup(struct json_out *out, const struct features_facts *facts)
{
    features_open_map(out, "cgroup");
    json_out_pair_bool(out, "v1", false);
    json_out_pair_bool(out, "v2", true);
    json_out_pair_bool(out, "systemd", facts->cgroup_systemd);
    json_out_pair_bool(out, "systemdUser", facts->cgroup_systemd_user);
    json_out_pair_bool(out, "rdma", facts->cgroup_rdma);
    json_out_map_close(out);
}

static void write_seccomp(struct json_out *out, const struct features_facts *facts)
{
    features_open_map(out, "seccomp");
    json_out_pair_bool(out, "enabled", facts->seccomp.enabled);
    if (facts->seccomp.enabled) {
        features_write_list(out, "actions", facts->seccomp.actions);
        features_write_list(out, "operators", facts->seccomp.operators);
        features_write_list(out, "archs", facts->seccomp.archs);
        features_write_list(out, "knownFlags", facts->seccomp.known_flags);
        features_write_list(out, "supportedFlags", facts->seccomp.supported_flags);
    }
    json_out_map_close(out);
}

static void features_write_linux(struct json_out *out, const struct features_facts *facts)
{
    features_open_map(out, "linux");
    write_words(out, "namespaces", spec_namespace_types);
    features_write_list(out, "capabilities", facts->capabilities);
    write_cgroup(out, facts);
    write_seccomp(out, facts);
    write_enabled(out, "apparmor", facts->apparmor);
    write_enabled(out, "selinux", facts->selinux);
    write_enabled(out, "intelRdt", false);
    if (facts->memory_policy) {
        features_open_map(out, "memoryPolicy");
        write_words(out, "modes", spec_memory_policy_modes);
        write_words(out, "flags", spec_memory_policy_flags);
        json_out_map_close(out);
    }
    features_open_map(out, "mountExtensions");
    write_enabled(out, "idmap", facts->idmap_mounts);
    json_out_map_close(out);
    write_enabled(out, "netDevices", facts->net_devices);
    json_out_map_close(out);
}

void features_write(struct json_out *out, const struct features_facts *facts)
{
    json_out_map_open(out);
    json_out_pair_string(out, "ociVersionMin", SPEC_VERSION_MIN);
    json_out_pair_string(out, "ociVersionMax", SPEC_VERSION);
    write_words(out, "hooks", spec_hook_kinds);
    features_write_list(out, "mountOptions", facts->mount_options);
    features_write_linux(out, facts);
    features_open_map(out, "annotations");
    for (size_t i = 0; i < facts->annotations.count; i++)
        json_out_pair_string(out, facts->annotations.items[i].key, facts->annotations.items[i].value);
    json_out_map_close(out);
    features_write_list(out, "potentiallyUnsafeConfigAnnotations", facts->unsafe_annotations);
    json_out_map_close(out);
}
