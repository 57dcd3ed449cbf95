/* From the bundle to the plan. */
#include "container/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/json_out.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "base/sys.h"
#include "container/execve.h"
#include "container/tracing.h"
#include "sandbox/mount/rootfs.h"
#include "spec/annotations.h"
#include "spec/policy.h"

#define CONFIG_MAX ((size_t)16 * 1024 * 1024)

int plan_read(struct arena *a, const struct create_options *options, struct plan_source *out,
              struct error *err)
{
    char resolved[PATH_MAX];
    const char *bundle = options->bundle != NULL ? options->bundle : ".";
    if (realpath(bundle, resolved) == NULL)
        return error_set(err, -errno, "bundle '%s'", bundle);
    out->bundle = arena_strdup(a, resolved);
    const char *path = path_join(a, resolved, options->config != NULL ? options->config : "config.json");
    char *text;
    int ret = io_read_file_at(a, AT_FDCWD, path, CONFIG_MAX, &text, &out->config_size);
    if (ret == -EFBIG)
        return error_text(err, ret, "'%s' is larger than %zu MiB", path, CONFIG_MAX >> 20);
    if (ret == -EINVAL)
        return error_text(err, -ENODEV, "'%s' is not a regular file", path);
    if (ret < 0)
        return error_set(err, ret, "read '%s'", path);
    out->config = text;
    struct spec *spec;
    ret = spec_parse(a, text, out->config_size, &spec, err);
    if (ret == 0)
        ret = spec_validate(spec, err);
    out->spec = spec;
    return ret;
}

/* Return whether the process has CAP_SYS_ADMIN in its user namespace. It needs that to open mounts for a
 * child in another user namespace. */
static bool has_sys_admin(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    return syscall(SYS_capget, &header, data) == 0 && (data[0].effective & (1U << CAP_SYS_ADMIN)) != 0;
}

/* Return the descriptor of the user namespace that is joined, or -1. */
static int joined_userns(const struct namespaces_plan *namespaces)
{
    for (size_t i = 0; i < namespaces->join_count; i++)
        if (namespaces->joins[i].flag == CLONE_NEWUSER)
            return namespaces->joins[i].fd;
    return -1;
}

static int plan_root(struct arena *a, const struct create_options *options, struct plan *out,
                     bool in_initial_user, struct error *err)
{
    const struct spec *spec = out->spec;
    out->rootfs = path_join(a, out->bundle, spec->root->path);
    struct rootfs_context context = {
        .bundle = out->bundle,
        .user_namespace = out->other_user_namespace,
        .joined_userns = joined_userns(&out->namespaces),
        .runtime_in_userns = !in_initial_user,
        .parent_privileged = has_sys_admin(),
        .new_pid = (out->namespaces.make & CLONE_NEWPID) != 0,
        .new_net = (out->namespaces.make & CLONE_NEWNET) != 0,
        .new_ipc = (out->namespaces.make & CLONE_NEWIPC) != 0,
        .new_cgroup = (out->namespaces.make & CLONE_NEWCGROUP) != 0,
        .new_mount = (out->namespaces.make & CLONE_NEWNS) != 0,
        .no_pivot = options->no_pivot,
        .cgroup_path = out->cgroup->ref.path,
        .cgroup_mount = out->cgroup->ref.mount,
    };
    return rootfs_plan(a, spec, &context, &out->rootfs_plan, err);
}

static int plan_process_of(struct arena *a, const struct runtime_options *rt,
                           const struct create_options *options, struct plan *out, int state_dir,
                           struct error *err)
{
    const struct spec *spec = out->spec;
    out->has_process = spec->process != NULL;
    if (!out->has_process)
        return 0;
    const char *keep_groups = spec_annotation(spec, ANNOTATION_KEEP_GROUPS);
    const struct seccomp_context filter = {.state_dir = state_dir, .version = rt->version};
    struct process_context context = {
        .spec = spec,
        .linux_ = spec->linux_,
        .user_namespace = out->other_user_namespace,
        .preserve_fds = options->preserve_fds,
        .listen_fds = options->listen_fds,
        .keyring = options->no_new_keyring ? NULL : out->id,
        .keep_groups = str_eq(keep_groups, "1"),
        .landlock = spec_annotation(spec, LANDLOCK_ANNOTATION),
        .landlock_log = out->landlock_log,
        .landlock_allow = options->landlock_allow,
        .filter = &filter,
    };
    return process_plan(a, spec->process, &context, &out->process, err);
}

/* Apply the administrator's decision before all planning, so that no mechanism sees an ignored annotation. */
static int plan_annotations(struct arena *a, const struct spec *from, bool root_of_host, struct plan *out,
                            struct error *err)
{
    struct policy policy;
    struct spec *spec = ARENA_NEW(a, struct spec);
    int ret = policy_read(a, NULL, root_of_host, &policy, err);
    if (ret < 0)
        return ret;
    *spec = *from;
    annotations_settle(a, &policy, root_of_host, &spec->annotations, &out->ignored);
    out->landlock_log = policy.landlock_log;
    out->spec = spec;
    return 0;
}

/* Refuse sysctls of a namespace that is joined by a path if it is the runtime's own. */
static int check_sysctls(const struct plan *plan, struct error *err)
{
    const struct str_map *sysctls = &plan->spec->linux_->sysctl;
    for (size_t i = 0; i < sysctls->count; i++) {
        const char *owner = spec_sysctl_owner(sysctls->items[i].key);
        if (owner != NULL && !namespaces_has(&plan->namespaces, owner))
            return error_set(
                err, -EINVAL,
                "linux.sysctl[\"%s\"]: would change the host: the %s namespace is the runtime's own",
                sysctls->items[i].key, owner);
    }
    return 0;
}

/* Return whether the runtime can leave its own network namespace. It cannot if programs still run in it, or
 * if devices leave it. */
static bool can_leave_network(const struct plan *plan)
{
    const struct spec_hooks *hooks = &plan->spec->hooks;
    return hooks->prestart.count + hooks->create_runtime.count + hooks->poststart.count +
                   hooks->poststop.count ==
               0 &&
           plan->netdev.count == 0;
}

static int plan_namespaces(struct arena *a, struct plan *out, struct error *err)
{
    int ret = namespaces_plan(a, out->spec, &out->namespaces, err);
    if (ret < 0)
        return ret;
    ret = namespaces_open(&out->namespaces, err);
    if (ret < 0)
        return ret;
    ret = check_sysctls(out, err);
    if (ret < 0)
        return ret;
    out->other_user_namespace = ((out->namespaces.make | out->namespaces.join) & CLONE_NEWUSER) != 0;
    if (!out->other_user_namespace && !has_sys_admin())
        return error_text(err, -EPERM,
                          "linux.namespaces: without CAP_SYS_ADMIN the container needs a user namespace: "
                          "'pysbx-runtime spec --rootless' writes a configuration that has one");
    ret = idmap_plan(a, out->spec, &out->idmap, err);
    if (ret < 0)
        return ret;
    netdev_plan(a, out->spec->linux_, &out->netdev);
    return can_leave_network(out) ? namespaces_overlap_network(&out->namespaces, err) : 0;
}

/* Refuse what the clone of the program's process would lack or reveal. */
static int plan_first(const struct create_options *options, struct plan *out, struct error *err)
{
    const struct process_plan *process = &out->process;
    const struct {
        bool refused;
        const char *reason;
    } reasons[] = {
        {!out->has_process, "config.json has no process"},
        {(out->namespaces.make & CLONE_NEWPID) == 0, "the container has no new pid namespace"},
        {out->traceable, "its processes could trace the program's before that is confined (CAP_SYS_PTRACE)"},
        {!sched_is_inherited(&process->sched), "a clone does not inherit its scheduler (process.scheduler)"},
        {process_loads_early(process), "its seccomp filter has a listener"},
    };
    if (!options->init)
        return 0;
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].refused)
            return error_text(err, -ENOTSUP, "option '--init' cannot be used here: %s", reasons[i].reason);
    out->process.first.wanted = true;
    return 0;
}

int plan_make(struct arena *a, const struct runtime_options *rt, const struct create_options *options,
              const struct plan_source *source, int state_dir, struct plan *out, struct error *err)
{
    *out = PLAN_NONE;
    out->process.launch = &launch_execve;
    out->id = options->id;
    out->bundle = source->bundle;
    out->config = source->config;
    out->config_size = source->config_size;
    int in_initial_user = namespaces_in_initial_user(err);
    if (in_initial_user < 0)
        return in_initial_user;
    int ret = plan_annotations(a, source->spec, geteuid() == 0 && in_initial_user, out, err);
    if (ret < 0)
        return ret;
    const struct spec *spec = out->spec;
    ret = plan_namespaces(a, out, err);
    if (ret < 0)
        return ret;
    struct cgroup_options cgroup = {
        .manager = rt->cgroup_manager, .id = options->id, .rootless = geteuid() != 0 || !in_initial_user};
    ret = cgroup_plan(a, spec, &cgroup, &out->cgroup, err);
    if (ret < 0)
        return ret;
    ret = plan_root(a, options, out, in_initial_user, err);
    if (ret < 0)
        return ret;
    ret = plan_process_of(a, rt, options, out, state_dir, err);
    if (ret < 0)
        return ret;
    ret = sysctl_plan(a, &spec->linux_->sysctl, &out->sysctl, err);
    if (ret < 0)
        return ret;
    out->traceable =
        tracing_possible(&out->namespaces, out->has_process && tracing_capable(&out->process.caps));
    return ret < 0 ? ret : plan_first(options, out, err);
}

void plan_warn(struct arena *a, const struct plan *plan)
{
    annotations_warn(a, &plan->spec->annotations, &plan->ignored);
    if (plan->has_process && plan->process.landlock.silenced)
        log_notice("annotation '" LANDLOCK_ANNOTATION
                   "': \"log\" is ignored: it fills the host's audit log, and "
                   "landlockLog in runtime.json is not true");
}

static void describe_hooks(const struct spec *spec, struct json_out *out)
{
    const struct {
        const char *name;
        const struct spec_hook_list *list;
    } kinds[] = {
        {"prestart", &spec->hooks.prestart},
        {"createRuntime", &spec->hooks.create_runtime},
        {"createContainer", &spec->hooks.create_container},
        {"startContainer", &spec->hooks.start_container},
        {"poststart", &spec->hooks.poststart},
        {"poststop", &spec->hooks.poststop},
    };
    json_out_map_open(out);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        if (kinds[k].list->count == 0)
            continue;
        json_out_key(out, kinds[k].name);
        json_out_array_open(out);
        for (size_t i = 0; i < kinds[k].list->count; i++)
            json_out_string(out, kinds[k].list->items[i].path);
        json_out_array_close(out);
    }
    json_out_map_close(out);
}

static void describe_pairs(const char *key, const struct str_map *map, struct json_out *out)
{
    json_out_key(out, key);
    json_out_map_open(out);
    for (size_t i = 0; i < map->count; i++)
        json_out_pair_string(out, map->items[i].key, map->items[i].value);
    json_out_map_close(out);
}

void plan_describe(const struct plan *plan, struct json_out *out)
{
    const struct spec *spec = plan->spec;
    json_out_map_open(out);
    json_out_pair_string(out, "id", plan->id);
    json_out_pair_string(out, "bundle", plan->bundle);
    json_out_key(out, "namespaces");
    namespaces_describe(&plan->namespaces, out);
    if (plan->idmap.active) {
        json_out_key(out, "userNamespace");
        idmap_describe(&plan->idmap, out);
    }
    json_out_key(out, "cgroup");
    cgroup_describe(plan->cgroup, out);
    json_out_key(out, "rootfs");
    rootfs_describe(plan->rootfs_plan, out);
    json_out_pair_string(out, "hostname", spec->hostname);
    json_out_pair_string(out, "domainname", spec->domainname);
    json_out_pair_string(out, "mountLabel", spec->linux_->mount_label);
    describe_pairs("sysctl", &spec->linux_->sysctl, out);
    annotations_describe(&spec->annotations, &plan->ignored, out);
    if (plan->netdev.count > 0) {
        json_out_key(out, "netDevices");
        netdev_describe(&plan->netdev, out);
    }
    json_out_pair_bool(out, "traceable", plan->traceable);
    json_out_pair_bool(out, "init", plan->process.first.wanted);
    json_out_key(out, "hooks");
    describe_hooks(spec, out);
    if (plan->has_process) {
        json_out_key(out, "process");
        process_describe(&plan->process, out);
    }
    launch_describe(plan->process.launch, out);
    json_out_map_close(out);
}
