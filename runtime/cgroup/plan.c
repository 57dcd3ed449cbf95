/* Decide about a container's cgroup before anything is created: which one, with which limits, or none. See
 * config-linux.md#control-groups. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json_out.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "cgroup/detect.h"
#include "cgroup/devices.h"
#include "cgroup/resources.h"
#include "cgroup/systemd.h"
#include "cgroup/tree.h"
#include "spec/spec.h"

/* Return the first value that is a limit, or NULL. */
static const struct cgroup_write *first_limit(const struct cgroup_writes *writes)
{
    for (size_t i = 0; i < writes->count; i++)
        if (!writes->items[i].optional)
            return &writes->items[i];
    return NULL;
}

/* Continue without a cgroup, unless the configuration needs one. */
static int go_without(struct cgroup_plan *plan, enum error_kind kind, const char *reason, struct error *err)
{
    const struct cgroup_write *limit = first_limit(&plan->writes);
    const bool systemd = plan->ref.rootless && access("/run/systemd/system", F_OK) == 0; /* sd_booted(3) */
    if (limit != NULL)
        return error_classify(
            err, kind,
            error_text(err, -ENOTSUP, "linux.resources.%s: cannot set controller '%s': %s%s", limit->source,
                       limit->controller, reason,
                       systemd ? " (systemd delegates cgroups to users: Delegate= in a drop-in for "
                                 "user@.service, and the cgroup manager systemd)"
                               : ""));
    /* Without rules, a container of root could create and open any device. */
    if (plan->devices != NULL)
        return error_classify(
            err, kind, error_text(err, -ENOTSUP, "linux.resources.devices: cannot be enforced: %s", reason));
    plan->ref.manager = CGROUP_MANAGER_DISABLED;
    plan->ref.path = "";
    plan->ref.scope = NULL;
    plan->writes.count = 0;
    plan->devices = NULL;
    plan->delegate = false;
    plan->reason = reason;
    return 0;
}

/* Return whether the caller may create `path` and move processes there from its own cgroup. For that, it
 * needs write access to the nearest existing directory and to cgroup.procs in it (cgroup-v2.rst, "Delegation
 * Containment"). */
static bool may_make(struct arena *a, const char *mount, const char *path)
{
    char *name = arena_printf(a, "%s%s", mount, path);
    size_t top = strlen(mount);
    while (access(name, F_OK) < 0) {
        char *slash = strrchr(name, '/');
        if (errno != ENOENT || slash == NULL || (size_t)(slash - name) < top)
            return false;
        *slash = '\0';
    }
    return faccessat(AT_FDCWD, name, W_OK, AT_EACCESS) == 0 &&
           faccessat(AT_FDCWD, arena_printf(a, "%s/cgroup.procs", name), W_OK, AT_EACCESS) == 0;
}

/* Return whether the file system of cgroups is mounted read-only, as engines do in their containers. Then
 * even root cannot make a cgroup. */
static bool is_read_only(const char *mount)
{
    struct statvfs about;
    return statvfs(mount, &about) == 0 && (about.f_flag & ST_RDONLY) != 0;
}

/* Return a path next to the runtime's own cgroup. If a rootless caller has a delegated tree, it is there. */
static const char *sibling_path(struct arena *a, const char *id)
{
    char own[PATH_MAX];
    if (cgroup_detect_path(0, own, NULL) < 0)
        own[0] = '\0';
    char *slash = strrchr(own, '/');
    return arena_printf(a, "%.*s/%s", slash != NULL ? (int)(slash - own) : 0, own, id);
}

static int plan_cgroupfs(struct arena *a, const struct spec *spec, const struct cgroup_options *options,
                         struct cgroup_plan *plan, struct error *err)
{
    const char *path = spec->linux_->cgroups_path;
    bool given = path != NULL && path[0] != '\0';
    /* A relative path is relative to the root too. If it were relative to the caller's cgroup, the
     * container's place would depend on the caller, which the specification forbids. */
    plan->ref.path = given               ? path_clean(a, path)
                     : options->rootless ? sibling_path(a, options->id)
                                         : arena_printf(a, "/%s", options->id);
    if (strcmp(plan->ref.path, "/") == 0)
        return error_set(err, -EINVAL, "linux.cgroupsPath: '%s' is the root cgroup", path);
    if (is_read_only(plan->ref.mount))
        return go_without(plan, ERROR_CGROUP_READ_ONLY,
                          arena_printf(a, "'%s' is mounted read-only", plan->ref.mount), err);
    if (!options->rootless || may_make(a, plan->ref.mount, plan->ref.path))
        return 0;
    const char *reason = arena_printf(a, "no permission to make cgroup '%s'", plan->ref.path);
    int ret = go_without(plan, ERROR_CGROUP_NOT_DELEGATED, reason, err);
    if (ret == 0 && given)
        log_notice("linux.cgroupsPath: %s: the container stays in the runtime's cgroup", reason);
    return ret;
}

/* Find the id on the host of a user of the container. */
static bool map_uid(const struct spec *spec, uint32_t uid, uint32_t *host)
{
    const struct spec_idmaps *maps = &spec->linux_->uid_mappings;
    if (maps->count == 0) {
        *host = uid;
        return spec_namespace(spec, "user") == NULL;
    }
    for (size_t i = 0; i < maps->count; i++) {
        const struct spec_idmap *m = &maps->items[i];
        if (uid >= m->container_id && uid - m->container_id < m->size) {
            *host = m->host_id + (uid - m->container_id);
            return true;
        }
    }
    return false;
}

/* The specification's rule: if a container has a cgroup namespace of its own and its cgroup mounted writable,
 * it is meant to manage that cgroup (systemd, or a runtime, inside). */
static bool is_delegated(const struct spec *spec)
{
    if (spec->process == NULL || !spec_new_namespace(spec, "cgroup"))
        return false;
    const struct spec_mount *found = NULL;
    for (size_t i = 0; i < spec->mounts.count; i++)
        if (str_eq(spec->mounts.items[i].destination, "/sys/fs/cgroup"))
            found = &spec->mounts.items[i];
    if (found == NULL || !(str_eq(found->type, "cgroup") || str_eq(found->type, "cgroup2")))
        return false;
    for (size_t i = 0; i < found->options.count; i++)
        if (strcmp(found->options.items[i], "ro") == 0)
            return false;
    return true;
}

/* Refuse a cgroup that is frozen or below a frozen one: the first process would stop half way, and the
 * runtime would wait for it. */
static int check_thawed(struct arena *a, const struct cgroup_ref *ref, struct error *err)
{
    char *path = arena_strdup(a, ref->manager == CGROUP_MANAGER_DISABLED ? "" : ref->path);
    for (char *end = path + strlen(path); end != NULL && path[0] != '\0'; end = strrchr(path, '/')) {
        *end = '\0';
        cleanup_fd int dir = path[0] != '\0' ? cgroup_tree_open(ref->mount, path) : -ENOENT;
        uint64_t frozen = 0;
        if (dir == -ENOENT)
            continue;
        if (dir >= 0 && cgroup_tree_value(dir, "cgroup.events", "frozen", &frozen) == 0 && frozen != 0)
            return error_text(err, -EBUSY,
                              "cgroup '%s' is frozen, so that no process can start in it: write 0 to its "
                              "cgroup.freeze or to that of the cgroup above it",
                              path);
        return 0;
    }
    return 0;
}

int cgroup_plan(struct arena *a, const struct spec *spec, const struct cgroup_options *options,
                struct cgroup_plan **out, struct error *err)
{
    struct cgroup_plan *plan = *out = ARENA_NEW(a, struct cgroup_plan);
    const struct spec_resources *resources = spec->linux_->resources;
    plan->ref = (struct cgroup_ref){.manager = options->manager,
                                    .mount = cgroup_detect_mount(a),
                                    .path = "",
                                    .rootless = options->rootless};
    int ret = cgroup_resources_plan(a, resources, &plan->writes, err);
    if (ret < 0)
        return ret;
    /* Disabled on request, so device rules are not enforced either. */
    if (options->manager == CGROUP_MANAGER_DISABLED) {
        ret = go_without(plan, ERROR_OTHER, "cgroups are disabled", err);
        plan->reason = NULL;
        return ret;
    }
    /* An unprivileged runtime cannot attach filters, and its container cannot create devices. */
    if (!options->rootless)
        ret = cgroup_devices_compile(a, resources, &plan->devices, err);
    if (ret < 0)
        return ret;
    if (plan->ref.mount == NULL)
        return go_without(plan, ERROR_NO_CGROUP2, "no cgroup2 file system is mounted", err);
    plan->delegate = is_delegated(spec) && map_uid(spec, spec->process->user.uid, &plan->owner_uid) &&
                     plan->owner_uid != geteuid();
    ret = options->manager == CGROUP_MANAGER_SYSTEMD ? cgroup_systemd_plan(a, spec, options, plan, err)
                                                     : plan_cgroupfs(a, spec, options, plan, err);
    return ret == 0 ? check_thawed(a, &plan->ref, err) : ret;
}

void cgroup_describe(const struct cgroup_plan *plan, struct json_out *out)
{
    json_out_map_open(out);
    json_out_pair_string(out, "manager", cgroup_manager_name(plan->ref.manager));
    json_out_pair_string(out, "reason", plan->reason);
    json_out_pair_string(out, "mount", plan->ref.mount);
    if (plan->ref.path[0] != '\0')
        json_out_pair_string(out, "path", plan->ref.path);
    json_out_pair_string(out, "slice", plan->ref.scope != NULL ? plan->slice : NULL);
    json_out_pair_string(out, "scope", plan->ref.scope);
    json_out_key(out, "limits");
    json_out_array_open(out);
    for (size_t i = 0; i < plan->writes.count; i++) {
        const struct cgroup_write *w = &plan->writes.items[i];
        json_out_map_open(out);
        json_out_pair_string(out, "file", w->file);
        json_out_pair_string(out, "value", w->value);
        json_out_pair_string(out, "source", w->source);
        json_out_map_close(out);
    }
    json_out_array_close(out);
    json_out_pair_u64(out, "deviceProgramInstructions", plan->devices != NULL ? plan->devices->count : 0);
    if (plan->delegate)
        json_out_pair_u64(out, "delegatedTo", plan->owner_uid);
    json_out_map_close(out);
}
