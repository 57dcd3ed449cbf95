/* features: the features of this runtime, collected from its rooms. It reports the abilities of the program,
 * not of the machine. For example, the specification wants SELinux reported even if the host does not use it.
 * */
#include <stddef.h>

#include "base/arena.h"
#include "base/json_out.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/version.h"
#include "sandbox/caps.h"
#include "sandbox/mount/options.h"
#include "sandbox/seccomp/compile.h"
#include "spec/annotations.h"
#include "spec/features.h"

static const struct str_pair about[] = {{"run.oci.pysbx-runtime.commit", version_commit},
                                        {"run.oci.pysbx-runtime.version", version_number}};

/* Return the words of a table. `wanted`, if not NULL, selects them by value. */
static struct word_list table_words(struct arena *a, const struct name_value *table, bool (*wanted)(unsigned))
{
    size_t size = 0, count = 0;
    while (table[size].name != NULL)
        size++;
    const char **words = ARENA_ARRAY(a, size, const char *);
    for (size_t i = 0; i < size; i++)
        if (wanted == NULL || wanted((unsigned)table[i].value))
            words[count++] = table[i].name;
    return (struct word_list){words, count};
}

static int features_run(struct invocation *invocation, void *values, struct error *err)
{
    (void)values;
    struct arena *a = invocation->arena;
    struct features_facts facts = {
        .cgroup_systemd = true,
        .cgroup_systemd_user = true,
        .cgroup_rdma = true,
        .seccomp =
            {
                .enabled = true,
                .actions = table_words(a, seccomp_actions, NULL),
                .operators = table_words(a, seccomp_operators, NULL),
                .archs = table_words(a, seccomp_architectures, NULL),
                .known_flags = table_words(a, seccomp_flags, NULL),
                .supported_flags = table_words(a, seccomp_flags, seccomp_flag_supported),
            },
        .apparmor = true,
        .selinux = true,
        .memory_policy = true,
        .idmap_mounts = true,
        .net_devices = true,
        .annotations = {(struct str_pair *)about, sizeof(about) / sizeof(about[0])},
    };
    facts.mount_options.items = mount_options_words(&facts.mount_options.count);
    facts.unsafe_annotations.items = annotations_unsafe(a, &facts.unsafe_annotations.count);
    facts.capabilities.items = caps_names(invocation->arena, &facts.capabilities.count);

    cleanup_json_out struct json_out *out = json_out_new(true);
    features_write(out, &facts);
    return output_json(out, err);
}

const struct command command_features = {
    .name = "features",
    .arguments = "",
    .summary = "show the features of this runtime as JSON",
    .options = command_no_options,
    .run = features_run,
};
