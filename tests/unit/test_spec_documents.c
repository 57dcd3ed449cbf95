/* spec/template.h and spec/features.h: the documents that the runtime writes. */
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json_out.h"
#include "spec/features.h"
#include "spec/json.h"
#include "spec/spec.h"
#include "spec/template.h"
#include "unit.h"

static struct arena arena;

static const struct spec *template_spec(bool rootless)
{
    cleanup_json_out struct json_out *out = json_out_new(true);
    spec_template_write(out, rootless);
    size_t size;
    const char *written = json_out_text(out, &size);
    const char *text = arena_strndup(&arena, written, size);
    struct spec *spec = NULL;
    struct error error = {0};
    const char *kind = rootless ? "rootless" : "root";
    if (!ok(spec_parse(&arena, text, size, &spec, &error) == 0, "the template for %s is parsed", kind))
        bail_out("%s", error.text);
    if (!ok(spec_validate(spec, &error) == 0, "and valid"))
        diag("%s", error.text);
    return spec;
}

static const struct spec_mount *mount_at(const struct spec *spec, const char *destination)
{
    for (size_t i = 0; i < spec->mounts.count; i++)
        if (strcmp(spec->mounts.items[i].destination, destination) == 0)
            return &spec->mounts.items[i];
    return NULL;
}

static void test_template(void)
{
    const struct spec *spec = template_spec(false);
    is_str(spec->process->args.items[0], "sh", "it runs a shell");
    ok(spec->process->terminal, "on a terminal");
    ok(spec->process->no_new_privileges, "without new privileges");
    is_int(spec->process->capabilities->bounding.count, 3, "with three capabilities");
    ok(spec_new_namespace(spec, "network") && spec_namespace(spec, "user") == NULL,
       "in a network namespace but no user namespace");
    is_str(mount_at(spec, "/sys")->type, "sysfs", "with a sysfs of its own");
    ok(spec->linux_->resources != NULL && spec->linux_->masked_paths.count > 10,
       "with device rules and masked paths");

    spec = template_spec(true);
    ok(spec_new_namespace(spec, "user") && spec_namespace(spec, "network") == NULL,
       "rootless: a user namespace and the network of the host");
    is_int(spec->linux_->uid_mappings.items[0].host_id, geteuid(), "rootless: the caller is mapped");
    is_str(mount_at(spec, "/sys")->source, "/sys", "rootless: /sys of the host");
    ok(spec->linux_->resources == NULL, "rootless: no device rules");
    is_int(mount_at(spec, "/dev/pts")->options.count, 5, "rootless: no group for terminals");
}

static const struct json_value *at(const struct json_value *value, const char *path)
{
    char *copy = arena_strdup(&arena, path), *rest = NULL;
    for (char *key = strtok_r(copy, ".", &rest); key != NULL && value != NULL;
         key = strtok_r(NULL, ".", &rest))
        value = json_member(value, key);
    return value;
}

static const char *first_word(const struct json_value *root, const char *path)
{
    const struct json_value *list = at(root, path);
    return list != NULL && list->count > 0 ? list->first->text : NULL;
}

static void test_features(void)
{
    static const char *const words[] = {"one", "two"};
    struct str_pair annotation = {"org.example.version", "1"};
    const struct word_list list = {words, 2};
    const struct features_facts facts = {
        .mount_options = list,
        .capabilities = list,
        .cgroup_systemd = true,
        .seccomp = {.enabled = true, .actions = list, .operators = list, .archs = list, .known_flags = list},
        .memory_policy = true,
        .idmap_mounts = true,
        .annotations = {.items = &annotation, .count = 1},
        .unsafe_annotations = list,
    };
    cleanup_json_out struct json_out *out = json_out_new(false);
    features_write(out, &facts);
    size_t size;
    const char *text = json_out_text(out, &size);
    struct json_value *root = NULL;
    struct error error = {0};
    if (json_parse(&arena, text, size, NULL, NULL, &root, &error) < 0)
        bail_out("%s", error.text);
    is_str(at(root, "ociVersionMin")->text, "1.0.0", "features: the lowest version");
    is_str(at(root, "ociVersionMax")->text, SPEC_VERSION, "features: the highest version");
    is_int(at(root, "hooks")->count, 6, "features: hooks");
    is_int(at(root, "linux.namespaces")->count, 8, "features: namespaces, time included");
    ok(!at(root, "linux.cgroup.v1")->boolean && at(root, "linux.cgroup.v2")->boolean &&
           at(root, "linux.cgroup.systemd")->boolean && !at(root, "linux.cgroup.systemdUser")->boolean,
       "features: cgroup");
    static const char *const lists[] = {
        "mountOptions",
        "linux.capabilities",
        "linux.seccomp.actions",
        "linux.seccomp.operators",
        "linux.seccomp.archs",
        "linux.seccomp.knownFlags",
        "potentiallyUnsafeConfigAnnotations",
    };
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        is_str(first_word(root, lists[i]), "one", "features: %s", lists[i]);
    is_int(at(root, "linux.seccomp.supportedFlags")->count, 0, "features: an empty list is an array");
    ok(at(root, "linux.mountExtensions.idmap.enabled")->boolean &&
           !at(root, "linux.netDevices.enabled")->boolean && !at(root, "linux.intelRdt.enabled")->boolean &&
           !at(root, "linux.selinux.enabled")->boolean && !at(root, "linux.apparmor.enabled")->boolean,
       "features: available and missing ones");
    is_str(first_word(root, "linux.memoryPolicy.modes"), "MPOL_BIND", "features: memory policies");
    is_str(at(root, "annotations")->first->key, "org.example.version", "features: annotations");
}

int main(void)
{
    test_template();
    test_features();
    arena_free(&arena);
    return done_testing();
}
