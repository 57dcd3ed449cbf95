/* Parent: plan the mounts of config.json, and open the sources that only the parent may open. */
#include "sandbox/mount/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json_out.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "base/sys.h"
#include "sandbox/idmap.h"
#include "sandbox/lsm/selinux.h"
#include "sandbox/mount/attach.h"
#include "sandbox/mount/context.h"
#include "spec/annotations.h"
#include "spec/spec.h"

/* File systems whose superblock is shared with others, or must stay writable during the set-up. For these,
 * "ro" is an attribute of the mount alone. */
static const char *const mount_only_readonly[] = {"proc",   "sysfs",  "tmpfs",  "devpts",
                                                  "mqueue", "cgroup", "cgroup2"};
/* File systems that cannot carry a context. mqueue gets it as an attribute of its root. */
static const char *const unlabelled[] = {"proc", "sysfs", "mqueue", "cgroup", "cgroup2"};
/* File systems in which no target for a later mount is ever made. */
static const char *const complete[] = {"proc", "sysfs", "devpts", "mqueue", "cgroup", "cgroup2"};

#define LISTED(type, list) mounts_is_listed(type, list, sizeof(list) / sizeof((list)[0]))
static bool mounts_is_listed(const char *type, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(type, list[i]))
            return true;
    return false;
}

/* True if `path` is strictly below `dir`. Both are clean. */
static bool is_below(const char *path, const char *dir)
{
    const char *rest = str_after(path, dir);
    return rest != NULL && rest[0] == '/';
}

static int plan_bind(struct arena *a, const struct spec_mount *in, const struct rootfs_context *context,
                     struct mount_plan *m, struct error *err)
{
    if (in->source == NULL || in->source[0] == '\0')
        return error_text(err, -EINVAL, "a bind mount needs a source");
    /* No file system gets them, and one may be a restriction that is misspelt. Other runtimes accept them.
     * Podman 4 leaves two words of its volumes. */
    for (size_t i = 0; i < m->options.data_count; i++) {
        const char *option = m->options.data[i].text;
        if (!str_eq(option, "copy") && !str_eq(option, "nocopy"))
            log_notice("mount '%s': option '%s': unknown, and without effect on a bind mount",
                       in->destination, option);
    }
    m->kind = MOUNT_KIND_BIND;
    m->source = path_join(a, context->bundle, in->source);
    /* Without recursion, "ro" makes only the mount of /sys read-only. */
    m->protect_cgroups = (context->user_namespace || context->runtime_in_userns) &&
                         str_eq(path_clean(a, m->source), "/sys") &&
                         (m->options.attrs.set & MOUNT_ATTR_RDONLY) != 0;
    if ((m->options.flags & MOUNT_FLAG_COPY_SYMLINK) == 0)
        return 0;
    char link[PATH_MAX];
    ssize_t n = readlink(m->source, link, sizeof(link) - 1);
    if (n >= 0) {
        m->kind = MOUNT_KIND_SYMLINK;
        m->source = arena_strndup(a, link, (size_t)n);
    }
    return 0;
}

/* The options of cgroup2 (admin-guide/cgroup-v2.rst). They belong to the host's tree, so the kernel ignores
 * them in a container. Those of cgroup v1 name controllers, which cannot be had by a mount. */
static int check_cgroup_options(const struct mount_options *options, struct error *err)
{
    static const char *const known[] = {"nsdelegate",
                                        "favordynmods",
                                        "memory_localevents",
                                        "memory_recursiveprot",
                                        "memory_hugetlb_accounting",
                                        "pids_localevents"};
    for (size_t i = 0; i < options->data_count; i++)
        if (!LISTED(options->data[i].text, known))
            return error_text(err, -EINVAL, "unknown option '%s' of a cgroup mount", options->data[i].text);
    return 0;
}

static int plan_filesystem(struct arena *a, const struct spec_mount *in, const struct mounts_plan *plan,
                           struct mount_plan *m, struct error *err)
{
    const struct mount_options *o = &m->options;
    m->kind = MOUNT_KIND_FILESYSTEM;
    if (str_eq(in->type, "cgroup") || str_eq(in->type, "cgroup2"))
        m->kind = MOUNT_KIND_CGROUP;
    m->fs = (struct filesystem){
        .type = in->type,
        .source = in->source,
        .attrs = (o->attrs.set & ~o->recursive.clear) | o->recursive.set,
        .super = o->super,
        .data = o->data,
        .data_count = o->data_count,
    };
    if ((m->fs.attrs & MOUNT_ATTR_RDONLY) != 0 && !LISTED(in->type, mount_only_readonly))
        m->fs.super |= MS_RDONLY;
    if (plan->label != NULL && !LISTED(in->type, unlabelled) &&
        mount_options_data(o, plan->label_key) == NULL) {
        m->fs.label_key = plan->label_key;
        m->fs.label = plan->label;
    }
    m->inherit_mode = str_eq(in->type, "tmpfs") && mount_options_data(o, "mode") == NULL;
    if (m->kind == MOUNT_KIND_CGROUP)
        return check_cgroup_options(o, err);
    filesystem_plan(a, &m->fs);
    return 0;
}

static void plan_remount(struct arena *a, const struct spec_mount *in, struct mount_plan *m)
{
    m->kind = MOUNT_KIND_REMOUNT;
    m->fs = (struct filesystem){
        .type = in->type != NULL ? in->type : "none",
        .attrs = m->options.attrs.set,
        .super = m->options.super | ((m->options.attrs.set & MOUNT_ATTR_RDONLY) != 0 ? MS_RDONLY : 0),
        .data = m->options.data,
        .data_count = m->options.data_count,
    };
    m->fs.legacy_data = filesystem_join_data(a, &m->fs);
}

static int plan_idmap(struct arena *a, const struct spec *spec, const struct spec_mount *in,
                      const struct rootfs_context *context, struct mount_plan *m, struct error *err)
{
    struct idmap_mount container = {.uids = spec->linux_->uid_mappings, .gids = spec->linux_->gid_mappings};
    bool given = in->uid_mappings.count > 0 || in->gid_mappings.count > 0;
    m->idmapped = given || (m->options.flags & MOUNT_FLAG_IDMAP) != 0;
    if (!m->idmapped)
        return 0;
    if (m->kind != MOUNT_KIND_BIND)
        return error_text(err, -EINVAL, "only bind mounts can be id-mapped");
    if (!given && context->joined_userns >= 0) {
        int ret = idmap_mount_read(a, context->joined_userns, &container, err);
        if (ret < 0)
            return ret;
    }
    if (m->options.idmap != NULL)
        return idmap_mount_parse(a, m->options.idmap, &container, &m->idmap, err);
    m->idmap = container;
    if (given)
        m->idmap = (struct idmap_mount){.uids = in->uid_mappings, .gids = in->gid_mappings};
    if (m->idmap.uids.count == 0 || m->idmap.gids.count == 0)
        return error_text(
            err, -EINVAL,
            given ? "uidMappings and gidMappings must both be given"
                  : "idmap without a mapping needs a user namespace with uidMappings and gidMappings");
    return 0;
}

static int plan_kind(struct arena *a, const struct spec_mount *in, const struct mounts_plan *plan,
                     struct mount_plan *m, struct error *err)
{
    if ((m->options.flags & MOUNT_FLAG_REMOUNT) != 0) {
        plan_remount(a, in, m);
        return 0;
    }
    if (spec_mount_is_bind(in))
        return plan_bind(a, in, plan->context, m, err);
    if (in->type == NULL || in->type[0] == '\0')
        return error_text(err, -EINVAL, "neither a type nor one of the options bind and rbind is given");
    return plan_filesystem(a, in, plan, m, err);
}

static int plan_mount(struct arena *a, const struct spec *spec, const struct spec_mount *in,
                      const struct mounts_plan *plan, struct mount_plan *m, struct error *err)
{
    *m = (struct mount_plan){.source_fd = -1, .mount_fd = -1};
    m->target = path_clean(a, in->destination);
    if (m->target[1] == '\0')
        return error_text(err, -EINVAL, "a mount on '/' would cover the root file system: set root.path");
    int ret = mount_options_parse(a, &in->options, &m->options, err);
    if (ret < 0)
        return ret;
    ret = plan_kind(a, in, plan, m, err);
    if (ret < 0)
        return ret;
    ret = plan_idmap(a, spec, in, plan->context, m, err);
    if (ret < 0)
        return ret;
    if ((m->options.flags & MOUNT_FLAG_COPY_UP) != 0 &&
        (m->kind != MOUNT_KIND_FILESYSTEM || !str_eq(in->type, "tmpfs")))
        return error_text(err, -EINVAL, "tmpcopyup is for tmpfs only");
    m->strict_target = str_eq(m->target, "/proc") || str_eq(m->target, "/sys") || str_eq(in->type, "proc") ||
                       str_eq(in->type, "sysfs");
    return 0;
}

/* Delay "ro" on mounts in which a later mount needs a target, and on /dev, whose devices come last. */
static void plan_late_readonly(struct mounts_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        struct mount_plan *m = &plan->items[i];
        if (((m->options.attrs.set | m->options.recursive.set) & MOUNT_ATTR_RDONLY) == 0 ||
            m->kind == MOUNT_KIND_SYMLINK || m->kind == MOUNT_KIND_REMOUNT || m->kind == MOUNT_KIND_CGROUP ||
            (m->kind == MOUNT_KIND_FILESYSTEM && (LISTED(m->fs.type, complete) || m->fs.legacy_data != NULL)))
            continue;
        m->late_readonly = str_eq(m->target, "/dev") || (m->options.flags & MOUNT_FLAG_COPY_UP) != 0;
        for (size_t j = i + 1; j < plan->count && !m->late_readonly; j++)
            m->late_readonly = is_below(plan->items[j].target, m->target);
        if (m->late_readonly) {
            m->fs.attrs &= ~(uint64_t)MOUNT_ATTR_RDONLY;
            m->fs.super &= ~(unsigned long)MS_RDONLY;
        }
    }
}

/* Delay the mounts that need late namespaces. The specification demands the order of config.json, and the
 * kernel lists mounts in the order of their creation. So all mounts from the first sysfs or cgroup on wait
 * for these namespaces. */
static void plan_order(struct mounts_plan *plan)
{
    bool late = false;
    for (size_t i = 0; i < plan->count; i++) {
        struct mount_plan *m = &plan->items[i];
        late |=
            m->kind == MOUNT_KIND_CGROUP || (m->kind == MOUNT_KIND_FILESYSTEM && str_eq(m->fs.type, "sysfs"));
        m->late = late;
    }
}

/* Read run.oci.mount_context_type: the SELinux mount option that carries linux.mountLabel. */
static int plan_label(const struct spec *spec, struct mounts_plan *out, struct error *err)
{
    static const char *const keys[] = {"context", "fscontext", "defcontext", "rootcontext"};
    const char *key = spec_annotation(spec, ANNOTATION_MOUNT_CONTEXT);
    out->label = spec->linux_->mount_label;
    out->label_key = key != NULL ? key : keys[0];
    /* Without SELinux the label has no effect. */
    if (out->label != NULL && (out->label[0] == '\0' || !selinux_enabled()))
        out->label = NULL;
    if (!LISTED(out->label_key, keys))
        return error_text(err, -EINVAL,
                          "annotation run.oci.mount_context_type: '%s' is none of context, fscontext, "
                          "defcontext, rootcontext",
                          key);
    return 0;
}

int mounts_plan(struct arena *a, const struct spec *spec, const struct rootfs_context *context,
                struct mounts_plan *out, struct error *err)
{
    const struct spec_mounts *in = &spec->mounts;
    const char *propagation = spec->linux_->rootfs_propagation;
    *out = (struct mounts_plan){
        .items = ARENA_ARRAY(a, in->count, struct mount_plan),
        .count = in->count,
        .context = context,
        .detach_peers = !str_eq(propagation, "shared") && !str_eq(propagation, "rshared"),
    };
    int ret = plan_label(spec, out, err);
    if (ret < 0)
        return ret;
    for (size_t i = 0; i < in->count; i++) {
        if (in->items[i].destination == NULL)
            return error_text(err, -EINVAL, "mounts[%zu]: destination is missing", i);
        if (plan_mount(a, spec, &in->items[i], out, &out->items[i], err) < 0)
            return error_wrap(err, "mounts[%zu] ('%s')", i, in->items[i].destination);
    }
    plan_late_readonly(out);
    plan_order(out);
    return 0;
}

enum mount_peers mounts_bind_peers(const struct mounts_plan *plan, const struct mount_plan *m)
{
    unsigned long propagation = m->options.propagation;
    /* mount_set_options takes all mounts out of their peer groups, or keeps them as asked. */
    if (propagation == MS_SHARED || (propagation != 0 && m->options.propagation_recursive))
        return MOUNT_PEERS_KEEP;
    /* "private" and "slave" name the top mount only, so the mounts below it leave their groups here. */
    return plan->detach_peers || propagation != 0 ? MOUNT_PEERS_SLAVE : MOUNT_PEERS_KEEP;
}

static int prepare_bind(struct mounts_plan *plan, struct mount_plan *m, int userns, struct error *err)
{
    bool recursive = (m->options.flags & MOUNT_FLAG_RECURSIVE) != 0;
    cleanup_fd int fd =
        mount_clone(AT_FDCWD, m->source, recursive, (m->options.flags & MOUNT_FLAG_SOURCE_NOFOLLOW) != 0,
                    mounts_bind_peers(plan, m));
    if (fd < 0)
        return error_set(err, fd, "mount source '%s'", m->source);
    bool below = (m->options.flags & MOUNT_FLAG_IDMAP_RECURSIVE) != 0;
    int ret = userns >= 0 ? idmap_mount_apply(fd, userns, below, err) : 0;
    if (ret < 0)
        return ret;
    ret = mount_set_options(fd, &m->options, m->late_readonly ? MOUNT_ATTR_RDONLY : 0, err);
    if (ret < 0)
        return ret;
    m->source_fd = fd_steal(&fd);
    return 0;
}

/* Open the user namespace that carries a mount's mapping, unless *userns carries the same one, *mapped. */
static int open_mapping(const struct mount_plan *m, const struct idmap_mount **mapped, int *userns,
                        struct error *err)
{
    if (*mapped != NULL && idmap_mount_equal(*mapped, &m->idmap))
        return 0;
    fd_close(userns);
    *userns = idmap_mount_userns(&m->idmap, err);
    *mapped = &m->idmap;
    return *userns < 0 ? *userns : 0;
}

struct detachment {
    const struct filesystem *fs;
    const char *place; /* any directory */
    struct error *err;
};

/* Mount by mount(2) in a mount namespace of its own, and open the mount as a detached one. */
static int mount_and_detach(void *data)
{
    const struct detachment *d = data;
    struct mount_attr alone = {.propagation = MS_PRIVATE};
    cleanup_fd int place = open(d->place, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (place < 0 || sys_mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &alone, sizeof(alone)) < 0)
        return error_set(d->err, -errno, "prepare '%s' for a mount", d->place);
    int ret = filesystem_mount_legacy(d->fs, place, false, d->err);
    if (ret < 0)
        return ret;
    int fd = mount_clone(AT_FDCWD, d->place, false, false, MOUNT_PEERS_PRIVATE);
    return fd < 0 ? error_set(d->err, fd, "open the mounted file system") : fd;
}

/* Make an overlay whose layers may lie below a directory that only the parent may pass. A file system of the
 * container's user namespace has no devices, so this one has none either. */
static int prepare_overlay(const struct mounts_plan *plan, struct mount_plan *m, struct error *err)
{
    struct detachment d = {&m->fs, plan->context->bundle, err};
    cleanup_fd int fd = m->fs.legacy_data != NULL ? mount_apart(mount_and_detach, &d, err)
                                                  : filesystem_create(&m->fs, -1, err);
    if (fd < 0)
        return fd;
    int ret = mount_set_attrs(fd, MOUNT_ATTR_NODEV, false);
    if (ret < 0)
        return error_set(err, ret, "set mount attributes");
    m->source_fd = fd_steal(&fd);
    return 0;
}

static int prepare_mount(struct mounts_plan *plan, struct mount_plan *m, int userns, struct error *err)
{
    return m->kind == MOUNT_KIND_BIND ? prepare_bind(plan, m, userns, err) : prepare_overlay(plan, m, err);
}

bool mounts_idmapped(const struct mounts_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        if (plan->items[i].idmapped)
            return true;
    return false;
}

int mounts_prepare(struct mounts_plan *plan, struct error *err)
{
    bool all = plan->context->user_namespace && plan->context->parent_privileged;
    cleanup_fd int userns = -1;
    const struct idmap_mount *mapped = NULL; /* the mapping that userns carries */
    for (size_t i = 0; i < plan->count; i++) {
        struct mount_plan *m = &plan->items[i];
        bool overlay = m->kind == MOUNT_KIND_FILESYSTEM && str_eq(m->fs.type, "overlay");
        if ((m->kind != MOUNT_KIND_BIND && !overlay) || (!all && !m->idmapped))
            continue;
        int ret = m->idmapped ? open_mapping(m, &mapped, &userns, err) : 0;
        if (ret < 0)
            return error_wrap(err, "mounts[%zu] ('%s')", i, m->target);
        ret = prepare_mount(plan, m, m->idmapped ? userns : -1, err);
        if (ret < 0)
            return error_wrap(err, "mounts[%zu] ('%s')", i, m->target);
    }
    return 0;
}

void mounts_release(struct mounts_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        fd_close(&plan->items[i].source_fd);
        fd_close(&plan->items[i].mount_fd);
    }
}

const struct mount_plan *mounts_at(const struct mounts_plan *plan, const char *target)
{
    const struct mount_plan *found = NULL;
    for (size_t i = 0; i < plan->count; i++)
        if (str_eq(plan->items[i].target, target))
            found = &plan->items[i];
    return found;
}

/* Write a pair only if the property is there. */
static void describe_flag(const char *key, bool value, struct json_out *out)
{
    if (value)
        json_out_pair_bool(out, key, true);
}

static void describe_mount(const struct mounts_plan *plan, const struct mount_plan *m, struct json_out *out)
{
    static const char *const kinds[] = {"filesystem", "bind", "cgroup", "symlink", "remount"};
    static const char *const peers[] = {"private", "slave", "keep"};
    bool is_new = m->kind == MOUNT_KIND_FILESYSTEM;
    bool labelled = m->fs.label != NULL || (plan->label != NULL && str_eq(m->fs.type, "mqueue"));
    json_out_map_open(out);
    json_out_pair_string(out, "target", m->target);
    json_out_pair_string(out, "kind", kinds[m->kind]);
    json_out_pair_string(out, "type", m->fs.type);
    json_out_pair_string(out, "source", m->source != NULL ? m->source : m->fs.source);
    json_out_key(out, "options");
    mount_options_describe(&m->options, out);
    if (m->idmapped) {
        idmap_describe_maps("uidMappings", &m->idmap.uids, out);
        idmap_describe_maps("gidMappings", &m->idmap.gids, out);
    }
    if (m->kind == MOUNT_KIND_BIND)
        json_out_pair_string(out, "peersOfSource", peers[mounts_bind_peers(plan, m)]);
    if (is_new)
        json_out_pair_string(out, "call", m->fs.legacy_data != NULL ? "mount" : "fsmount");
    describe_flag("labelled", is_new && labelled, out);
    describe_flag("inheritMode", m->inherit_mode, out);
    describe_flag("strictTarget", m->strict_target, out);
    describe_flag("protectCgroups", m->protect_cgroups, out);
    describe_flag("afterNetworkAndCgroup", m->late, out);
    describe_flag("readonlyLast", m->late_readonly, out);
    json_out_map_close(out);
}

void mounts_describe(const struct mounts_plan *plan, struct json_out *out)
{
    json_out_array_open(out);
    for (size_t i = 0; i < plan->count; i++)
        describe_mount(plan, &plan->items[i], out);
    json_out_array_close(out);
}
