/* The linux object (config-linux.md): namespaces and the properties that need them, mappings, devices and the
 * rest. */
#include "spec/validate.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/str.h"
#include "spec/spec.h"

/* UTS namespace: __NEW_UTS_LEN. */
#define UTS_NAME_MAX 64
/* user_namespaces(7): lines of a map since Linux 4.15. */
#define IDMAP_COUNT_MAX 340
/* IFNAMSIZ without the NUL. */
#define NET_NAME_MAX 15

static int validate_namespaces(const struct spec_namespaces *list, struct error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct spec_namespace *n = &list->items[i];
        for (size_t j = 0; j < i; j++)
            if (str_eq(list->items[j].type, n->type))
                return error_set(err, -EINVAL, "linux.namespaces[%zu]: '%s' is given twice", i, n->type);
        if (n->path != NULL && n->path[0] != '/')
            return error_set(err, -EINVAL, "linux.namespaces[%zu].path: '%s' is not an absolute path", i,
                             n->path);
    }
    return 0;
}

static bool ranges_overlap(uint32_t a, uint32_t a_size, uint32_t b, uint32_t b_size)
{
    return a < (uint64_t)b + b_size && b < (uint64_t)a + a_size;
}

int validate_idmaps(const struct spec_idmaps *maps, const char *path, struct error *err)
{
    if (maps->count > IDMAP_COUNT_MAX)
        return error_set(err, -EINVAL, "%s: more than %d mappings", path, IDMAP_COUNT_MAX);
    for (size_t i = 0; i < maps->count; i++) {
        const struct spec_idmap *m = &maps->items[i];
        if (m->size == 0)
            return error_set(err, -EINVAL, "%s[%zu].size: must not be 0", path, i);
        if ((uint64_t)m->container_id + m->size > UINT32_MAX || (uint64_t)m->host_id + m->size > UINT32_MAX)
            return error_set(err, -EINVAL, "%s[%zu]: goes beyond the last id", path, i);
        for (size_t j = 0; j < i; j++) {
            const struct spec_idmap *o = &maps->items[j];
            if (ranges_overlap(m->container_id, m->size, o->container_id, o->size) ||
                ranges_overlap(m->host_id, m->size, o->host_id, o->size))
                return error_set(err, -EINVAL, "%s[%zu]: overlaps with %s[%zu]", path, i, path, j);
        }
    }
    return 0;
}

static bool is_mapped(const struct spec_idmaps *maps, uint32_t id)
{
    for (size_t i = 0; i < maps->count; i++)
        if (id >= maps->items[i].container_id && id - maps->items[i].container_id < maps->items[i].size)
            return true;
    return false;
}

static int validate_mapped_user(const struct spec *spec, struct error *err)
{
    const struct spec_linux *linux_ = spec->linux_;
    if (spec->process == NULL || !spec_new_namespace(spec, "user"))
        return 0;
    const struct spec_user *user = &spec->process->user;
    if (!is_mapped(&linux_->uid_mappings, user->uid))
        return error_set(
            err, -EINVAL,
            "process.user.uid: %u is not mapped in the user namespace: linux.uidMappings lacks it",
            user->uid);
    if (!is_mapped(&linux_->gid_mappings, user->gid))
        return error_set(
            err, -EINVAL,
            "process.user.gid: %u is not mapped in the user namespace: linux.gidMappings lacks it",
            user->gid);
    return 0;
}

/* A joined user namespace has its own mappings. Engines may still give some next to its path. */
static int validate_user_namespace(const struct spec *spec, struct error *err)
{
    static const char *const paths[] = {"linux.uidMappings", "linux.gidMappings"};
    const struct spec_idmaps *lists[] = {&spec->linux_->uid_mappings, &spec->linux_->gid_mappings};
    const struct spec_namespace *user = spec_namespace(spec, "user");
    for (size_t i = 0; i < 2; i++) {
        if (lists[i]->count > 0 && user == NULL)
            return error_set(err, -EINVAL, "%s: needs a user namespace in linux.namespaces", paths[i]);
        if (lists[i]->count == 0 && user != NULL && user->path == NULL)
            return error_set(err, -EINVAL, "%s: a new user namespace needs mappings", paths[i]);
        int ret = validate_idmaps(lists[i], paths[i], err);
        if (ret < 0)
            return ret;
    }
    return validate_mapped_user(spec, err);
}

static int validate_uts_name(const struct spec *spec, const char *name, const char *path, struct error *err)
{
    if (name == NULL)
        return 0;
    if (spec_namespace(spec, "uts") == NULL)
        return error_set(err, -EINVAL, "%s: needs a uts namespace in linux.namespaces", path);
    if (strlen(name) > UTS_NAME_MAX)
        return error_set(err, -EINVAL, "%s: longer than %d bytes", path, UTS_NAME_MAX);
    return 0;
}

static int validate_time_offsets(const struct spec *spec, struct error *err)
{
    for (size_t i = 0; i < spec->linux_->time_offsets.count; i++) {
        const char *clock = spec->linux_->time_offsets.items[i].clock;
        if (!str_eq(clock, "monotonic") && !str_eq(clock, "boottime"))
            return error_set(err, -EINVAL, "linux.timeOffsets: unknown clock '%s'", clock);
        if (!spec_new_namespace(spec, "time"))
            return error_set(err, -EINVAL,
                             "linux.timeOffsets.%s: needs a new time namespace in linux.namespaces", clock);
    }
    return 0;
}

/* Sysctls that belong to a namespace, as paths below /proc/sys. All others belong to the host. A prefix ends
 * in "/". kernel/hostname belongs to the uts namespace as well, but `hostname` sets it. */
static const struct {
    const char *path, *namespace;
} sysctl_owners[] = {
    {"fs/mqueue/", "ipc"},
    {"kernel/domainname", "uts"},
    {"kernel/msg_next_id", "ipc"},
    {"kernel/msgmax", "ipc"},
    {"kernel/msgmnb", "ipc"},
    {"kernel/msgmni", "ipc"},
    {"kernel/sem", "ipc"},
    {"kernel/sem_next_id", "ipc"},
    {"kernel/shm_next_id", "ipc"},
    {"kernel/shm_rmid_forced", "ipc"},
    {"kernel/shmall", "ipc"},
    {"kernel/shmmax", "ipc"},
    {"kernel/shmmni", "ipc"},
    {"net/", "network"},
    {"user/", "user"},
};

static const char *sysctl_owner(const char *path)
{
    for (size_t i = 0; i < sizeof(sysctl_owners) / sizeof(sysctl_owners[0]); i++) {
        const char *rest = str_after(path, sysctl_owners[i].path);
        bool prefix = sysctl_owners[i].path[strlen(sysctl_owners[i].path) - 1] == '/';
        if (rest != NULL && (*rest == '\0') != prefix)
            return sysctl_owners[i].namespace;
    }
    return NULL;
}

/* Convert a key to a path, like sysctl(8). If the first separator is a dot, dots separate, and slashes are
 * dots within a name ("net.ipv4.conf.eth0/1.forwarding"). Otherwise the key is a path already. Return false
 * for a key that is too long, or that has an empty, "." or ".." component (CVE-2022-0811). */
static bool sysctl_path(const char *key, char *path, size_t size)
{
    size_t n = strlen(key);
    if (n >= size || has_control_character(key))
        return false;
    memcpy(path, key, n + 1);
    bool dotted = path[strcspn(path, "./")] == '.';
    for (char *c = path; dotted && (c = strpbrk(c, "./")) != NULL; c++)
        *c = *c == '.' ? '/' : '.';
    for (const char *s = path;; s++) {
        size_t length = strcspn(s, "/");
        if (length == 0 || (length == 1 && s[0] == '.') || (length == 2 && s[0] == '.' && s[1] == '.'))
            return false;
        s += length;
        if (*s == '\0')
            return true;
    }
}

const char *spec_sysctl_owner(const char *key)
{
    char path[256];
    return sysctl_path(key, path, sizeof(path)) ? sysctl_owner(path) : NULL;
}

static int validate_sysctl(const struct spec *spec, const struct str_pair *sysctl, struct error *err)
{
    char path[256];
    if (!sysctl_path(sysctl->key, path, sizeof(path)))
        return error_set(err, -EINVAL, "linux.sysctl: '%s' is not the name of a sysctl", sysctl->key);
    if (strpbrk(sysctl->value, "\r\n") != NULL)
        return error_set(err, -EINVAL, "linux.sysctl[\"%s\"]: the value contains a newline", sysctl->key);
    if (str_eq(path, "kernel/hostname"))
        return error_set(err, -EINVAL, "linux.sysctl[\"%s\"]: use 'hostname' for the host name", sysctl->key);
    const char *owner = sysctl_owner(path);
    if (owner == NULL)
        return error_set(err, -EINVAL, "linux.sysctl[\"%s\"]: belongs to no namespace", sysctl->key);
    if (spec_namespace(spec, owner) == NULL)
        return error_set(err, -EINVAL, "linux.sysctl[\"%s\"]: needs a %s namespace in linux.namespaces",
                         sysctl->key, owner);
    return 0;
}

static int validate_sysctls(const struct spec *spec, struct error *err)
{
    for (size_t i = 0; i < spec->linux_->sysctl.count; i++) {
        int ret = validate_sysctl(spec, &spec->linux_->sysctl.items[i], err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int validate_device(const struct spec_device *d, size_t index, struct error *err)
{
    static const struct {
        char type;
        mode_t bits;
    } kinds[] = {{'c', S_IFCHR}, {'u', S_IFCHR}, {'b', S_IFBLK}, {'p', S_IFIFO}};
    if (d->path[0] != '/')
        return error_set(err, -EINVAL, "linux.devices[%zu].path: '%s' is not an absolute path", index,
                         d->path);
    if (d->type[0] != 'p' && (!d->major.set || !d->minor.set))
        return error_set(err, -EINVAL, "linux.devices[%zu]: type '%s' needs major and minor", index, d->type);
    /* Podman writes the mode as stat(2) returns it, with the type of the file. */
    mode_t bits = d->file_mode.set ? (mode_t)d->file_mode.value & S_IFMT : 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (bits != 0 && kinds[i].type == d->type[0] && kinds[i].bits != bits)
            return error_set(err, -EINVAL, "linux.devices[%zu].fileMode: contradicts the type '%s'", index,
                             d->type);
    return 0;
}

static int validate_devices(const struct spec_devices *devices, struct error *err)
{
    for (size_t i = 0; i < devices->count; i++) {
        int ret = validate_device(&devices->items[i], i, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

/* Like dev_valid_name() of the kernel. A "%" would make the kernel number the name (dev_alloc_name). */
static bool is_net_name(const char *name)
{
    size_t n = strlen(name);
    return n > 0 && n <= NET_NAME_MAX && !str_eq(name, ".") && !str_eq(name, "..") &&
           strpbrk(name, "/:% \t\v\f") == NULL && !has_control_character(name);
}

static const char *net_target(const struct spec_net_device *device)
{
    return device->new_name != NULL ? device->new_name : device->name;
}

static int validate_net_devices(const struct spec *spec, struct error *err)
{
    const struct spec_net_device *items = spec->linux_->net_devices.items;
    for (size_t i = 0; i < spec->linux_->net_devices.count; i++) {
        if (spec_namespace(spec, "network") == NULL)
            return error_set(err, -EINVAL, "linux.netDevices: needs a network namespace in linux.namespaces");
        if (!is_net_name(items[i].name))
            return error_set(err, -EINVAL, "linux.netDevices: '%s' is not the name of a network device",
                             items[i].name);
        if (!is_net_name(net_target(&items[i])))
            return error_set(err, -EINVAL,
                             "linux.netDevices.%s.name: '%s' is not the name of a network device",
                             items[i].name, items[i].new_name);
        for (size_t j = 0; j < i; j++)
            if (str_eq(net_target(&items[i]), net_target(&items[j])))
                return error_set(err, -EINVAL, "linux.netDevices: two devices would be named '%s'",
                                 net_target(&items[i]));
    }
    return 0;
}

static bool has_flag(const struct str_list *flags, const char *flag)
{
    for (size_t i = 0; i < flags->count; i++)
        if (str_eq(flags->items[i], flag))
            return true;
    return false;
}

/* set_mempolicy(2) says which modes take nodes, and which flags exclude each other. */
static int validate_memory_policy(const struct spec_memory_policy *policy, struct error *err)
{
    if (policy == NULL)
        return 0;
    bool forbidden = str_eq(policy->mode, "MPOL_DEFAULT") || str_eq(policy->mode, "MPOL_LOCAL");
    bool needed = !forbidden && !str_eq(policy->mode, "MPOL_PREFERRED");
    if (policy->nodes != NULL && !is_number_list(policy->nodes))
        return error_set(err, -EINVAL,
                         "linux.memoryPolicy.nodes: '%s' is not a list of nodes such as \"0-1,3\"",
                         policy->nodes);
    if (policy->nodes != NULL && forbidden)
        return error_set(err, -EINVAL, "linux.memoryPolicy.nodes: has no meaning for %s", policy->mode);
    if (policy->nodes == NULL && needed)
        return error_set(err, -EINVAL, "linux.memoryPolicy.nodes: %s needs nodes", policy->mode);
    if (has_flag(&policy->flags, "MPOL_F_STATIC_NODES") && has_flag(&policy->flags, "MPOL_F_RELATIVE_NODES"))
        return error_set(err, -EINVAL,
                         "linux.memoryPolicy.flags: MPOL_F_STATIC_NODES and MPOL_F_RELATIVE_NODES exclude "
                         "each other");
    return 0;
}

static int validate_absolute(const struct str_list *paths, const char *name, struct error *err)
{
    for (size_t i = 0; i < paths->count; i++)
        if (paths->items[i][0] != '/')
            return error_set(err, -EINVAL, "linux.%s[%zu]: '%s' is not an absolute path", name, i,
                             paths->items[i]);
    return 0;
}

static int validate_words(const struct spec_linux *linux_, struct error *err)
{
    if (linux_->cgroups_path != NULL &&
        (has_dot_dot(linux_->cgroups_path) || has_control_character(linux_->cgroups_path)))
        return error_set(err, -EINVAL, "linux.cgroupsPath: '%s' is not a path below the cgroup root",
                         linux_->cgroups_path);
    if (linux_->mount_label != NULL && has_control_character(linux_->mount_label))
        return error_set(err, -EINVAL, "linux.mountLabel: contains a control character");
    if (linux_->personality != NULL && linux_->personality->flags.count > 0)
        return error_set(err, -EINVAL, "linux.personality.flags[0]: unknown value '%s'",
                         linux_->personality->flags.items[0]);
    int ret = validate_absolute(&linux_->masked_paths, "maskedPaths", err);
    return ret < 0 ? ret : validate_absolute(&linux_->readonly_paths, "readonlyPaths", err);
}

int validate_linux(const struct spec *spec, struct error *err)
{
    const struct spec_linux *l = spec->linux_;
    int ret = validate_namespaces(&l->namespaces, err);
    if (ret < 0)
        return ret;
    ret = validate_user_namespace(spec, err);
    if (ret < 0)
        return ret;
    ret = validate_uts_name(spec, spec->hostname, "hostname", err);
    if (ret < 0)
        return ret;
    ret = validate_uts_name(spec, spec->domainname, "domainname", err);
    if (ret < 0)
        return ret;
    ret = validate_time_offsets(spec, err);
    if (ret < 0)
        return ret;
    ret = validate_sysctls(spec, err);
    if (ret < 0)
        return ret;
    ret = validate_devices(&l->devices, err);
    if (ret < 0)
        return ret;
    ret = validate_net_devices(spec, err);
    if (ret < 0)
        return ret;
    if (l->has_intel_rdt)
        return error_text(err, -EINVAL, "linux.intelRdt: resctrl is not supported: remove the property");
    ret = validate_memory_policy(l->memory_policy, err);
    if (ret < 0)
        return ret;
    return validate_words(l, err);
}
