/* The features document (runtime-spec 1.3, features.md). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "spec/spec.h"

struct json_out;

struct word_list {
    const char *const *items;
    size_t count;
};

/* Facts from other rooms. An empty list is written as an empty array. Hooks, namespaces, versions and memory
 * policies come from this room: they are the words that its tables accept. */
struct features_facts {
    struct word_list mount_options;
    struct word_list capabilities;
    bool cgroup_systemd, cgroup_systemd_user, cgroup_rdma;
    struct {
        bool enabled;
        struct word_list actions, operators, archs;
        struct word_list known_flags;     /* that the runtime knows by name */
        struct word_list supported_flags; /* those of them that this kernel and libseccomp support */
    } seccomp;
    bool apparmor, selinux;
    bool memory_policy;
    bool idmap_mounts;
    bool net_devices;
    struct str_map annotations;          /* facts about the runtime: version, commit, … */
    struct word_list unsafe_annotations; /* annotations of config.json with effects on the host */
};

/* Write the document as one object. */
void features_write(struct json_out *out, const struct features_facts *facts);
