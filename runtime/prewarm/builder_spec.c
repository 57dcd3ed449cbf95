/* The configuration of a probe or builder: that of the container, changed so that it leaves no trace on the
 * host. */
#include "prewarm/builder_spec.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "container/options.h"
#include "container/process.h"
#include "prewarm/builder_needs.h"
#include "prewarm/start.h"
#include "spec/spec.h"
#include "warm/params.h"

static void append_option(struct arena *a, struct str_list *options, const char *option)
{
    const char **items = ARENA_ARRAY(a, options->count + 2, const char *);
    if (options->count > 0)
        memcpy(items, options->items, options->count * sizeof(*items));
    items[options->count] = option;
    *options = (struct str_list){items, options->count + 1};
}

/* Return whether the mount is made anew for each container, so data that is written there does not outlive
 * the builder. */
static bool is_made_anew(const struct spec_mount *mount)
{
    static const char *const types[] = {"proc", "sysfs", "tmpfs", "devpts", "mqueue", "cgroup", "cgroup2"};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (mount->type != NULL && str_eq(mount->type, types[i]))
            return true;
    return false;
}

/* The builder's root is read-only, but the container's may be writable. An import that searches for a
 * temporary directory must find the same one as in the container. That is /tmp of the image, if it is
 * empty. */
#define TEMPORARY_PLACE "/tmp"
#define TEMPORARY_MODE  01777

static bool has_temporary_place(struct arena *a, const struct start *start)
{
    const struct spec *spec = start->spec;
    for (size_t i = 0; i < spec->mounts.count; i++)
        if (str_eq(path_clean(a, spec->mounts.items[i].destination), TEMPORARY_PLACE))
            return false;
    cleanup_fd int root = open(start->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (spec->root->readonly || root < 0)
        return false;
    struct stat st;
    int fd = path_open_in_root_nosymlink(root, TEMPORARY_PLACE, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        fd_close(&fd);
        return false;
    }
    bool fit = fstat(fd, &st) == 0 && (st.st_mode & TEMPORARY_MODE) == TEMPORARY_MODE;
    for (const struct dirent *entry; fit && (entry = readdir(dir)) != NULL;)
        fit = str_eq(entry->d_name, ".") || str_eq(entry->d_name, "..");
    closedir(dir);
    return fit;
}

static void add_mount(struct arena *a, struct spec_mounts *mounts, struct spec_mount mount,
                      const char *const *options)
{
    for (; *options != NULL; options++)
        append_option(a, &mount.options, *options);
    mounts->items[mounts->count++] = mount;
}

/* Return whether the builder gets the mount. A mount that no import has looked at is left out: a volume, a
 * secret, a tmpfs, or a file that the engine has made for the container. These are always needed: the
 * program, its working directory, /dev, temporary directories, /proc, /sys and mounts that the kernel makes
 * anew. */
static bool builder_spec_is_needed(struct arena *a, const struct start *start, const char *program,
                                   const struct builder_needs *needs, const struct spec_mount *mount)
{
    const char *destination = path_clean(a, mount->destination);
    bool leaves = spec_mount_is_bind(mount) || str_eq(mount->type, "tmpfs");
    static const char *const kept[] = {"/dev", "/dev/shm", "/proc", "/sys", TEMPORARY_PLACE};
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        leaves = leaves && !str_eq(destination, kept[i]);
    if (needs == NULL || !leaves)
        return true;
    const char *always[] = {start->process->cwd, program};
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
        const char *rest = str_after(path_clean(a, always[i]), destination);
        if (rest != NULL && (*rest == '/' || *rest == '\0' || str_eq(destination, "/")))
            return true;
    }
    return builder_needs_path(needs, destination);
}

/* Return whether the mount is beneath one that is left out. Its target would then be in a directory of the
 * builder's root, which is read-only and may lack the target. */
static bool is_beneath(struct arena *a, const struct spec_mount *mount, const struct str_list *left_out)
{
    const char *destination = path_clean(a, mount->destination);
    for (size_t i = 0; i < left_out->count; i++) {
        const char *rest = str_after(destination, left_out->items[i]);
        if (rest != NULL && *rest == '/')
            return true;
    }
    return false;
}

static void make_mounts(struct arena *a, const struct start *start, const struct builder_program *program,
                        const struct builder_needs *needs, struct spec *out)
{
    /* "rro" makes the mounts beneath read-only too. The options of the mount, such as "rw", come before
     * these. */
    static const char *const as_it_is[] = {NULL}, *const read_only[] = {"ro", "rro", NULL};
    const struct spec_mounts from = start->spec->mounts;
    struct spec_mounts mounts = {ARENA_ARRAY(a, from.count + 2, struct spec_mount), 0};
    struct str_list left_out = {ARENA_ARRAY(a, from.count + 1, const char *), 0};
    if (has_temporary_place(a, start))
        add_mount(a, &mounts, (struct spec_mount){.destination = TEMPORARY_PLACE, .type = "tmpfs"},
                  (const char *const[]){"nosuid", "nodev", "mode=1777", "size=64m", NULL});
    for (size_t i = 0; i < from.count; i++) {
        const struct spec_mount *mount = &from.items[i];
        if (is_beneath(a, mount, &left_out) ||
            !builder_spec_is_needed(a, start, program->path, needs, mount)) {
            left_out.items[left_out.count++] = path_clean(a, mount->destination);
            continue;
        }
        const bool anew = !spec_mount_is_bind(mount) && is_made_anew(mount);
        add_mount(a, &mounts, *mount, anew ? as_it_is : read_only);
    }
    add_mount(a, &mounts,
              (struct spec_mount){.destination = WARM_AGENT_PATH, .type = "bind", .source = program->agent},
              (const char *const[]){"bind", "ro", NULL});
    out->mounts = mounts;
}

/* Always make new namespaces that isolate the builder, in place of joined ones. The user namespace stays the
 * same, because it decides which owners files appear to have. */
static void make_namespaces(struct arena *a, const struct spec *from, struct spec_linux *out)
{
    static const char *const always[] = {"pid", "mount", "ipc", "uts", "network"};
    static const char *const as_given[] = {"user", "cgroup", "time"};
    const size_t fixed = sizeof(always) / sizeof(always[0]), given = sizeof(as_given) / sizeof(as_given[0]);
    struct spec_namespaces list = {ARENA_ARRAY(a, fixed + given, struct spec_namespace), 0};
    for (size_t i = 0; i < fixed; i++)
        list.items[list.count++] = (struct spec_namespace){.type = always[i]};
    for (size_t i = 0; i < given; i++) {
        const struct spec_namespace *ns = spec_namespace(from, as_given[i]);
        if (ns != NULL)
            list.items[list.count++] = *ns;
    }
    out->namespaces = list;
}

/* Make the agent the first library of a probe, before those that the container's environment names
 * (agent/lookups.c). */
static struct str_list preload_agent(struct arena *a, const struct str_list *environment)
{
    static const char variable[] = "LD_PRELOAD=";
    struct str_list out = {ARENA_ARRAY(a, environment->count + 1, const char *), 0};
    const char *own = NULL;
    for (size_t i = 0; i < environment->count; i++) {
        const char *value = str_after(environment->items[i], variable);
        if (value != NULL)
            own = value; /* the last one counts */
        else
            out.items[out.count++] = environment->items[i];
    }
    out.items[out.count++] = own != NULL && own[0] != '\0'
                                 ? arena_printf(a, "%s%s:%s", variable, WARM_AGENT_PATH, own)
                                 : arena_printf(a, "%s%s", variable, WARM_AGENT_PATH);
    return out;
}

/* Set a limit of memory that works without a cgroup controller. If the container has this limit itself, keep
 * the container's. */
static void bound_memory(struct arena *a, uint64_t memory, struct spec_process *out)
{
    const struct spec_rlimits given = out->rlimits;
    for (size_t i = 0; i < given.count; i++)
        if (str_eq(given.items[i].type, "RLIMIT_AS"))
            return;
    out->rlimits =
        (struct spec_rlimits){ARENA_ARRAY(a, given.count + 1, struct spec_rlimit), given.count + 1};
    if (given.count > 0)
        memcpy(out->rlimits.items, given.items, given.count * sizeof(*given.items));
    out->rlimits.items[given.count] =
        (struct spec_rlimit){.type = "RLIMIT_AS", .hard = memory, .soft = memory};
}

/* Return a path beside the container's cgroup, which must not contain another cgroup. A path is cleaned
 * first: "/a/" would otherwise become "/a/-builder". With systemd it is not a path. */
static const char *make_cgroups_path(struct arena *a, const struct start *start, const char *path)
{
    if (path == NULL || path[0] == '\0') /* both mean that there is none */
        return path;
    return arena_printf(a, "%s-builder",
                        start->rt->cgroup_manager == CGROUP_MANAGER_SYSTEMD ? path : path_clean(a, path));
}

/* The names are the same in all builders. Imports that ask for the container's names make no snapshot. */
#define HOST_NAME   "localhost"
#define DOMAIN_NAME "localdomain"

const struct spec *builder_spec(struct arena *a, const struct start *start,
                                const struct builder_program *program, const struct builder_needs *needs)
{
    const struct spec *from = start->spec;
    struct spec *out = ARENA_NEW(a, struct spec);
    *out = *from;
    out->hooks = (struct spec_hooks){0};
    out->root = ARENA_NEW(a, struct spec_root);
    *out->root = (struct spec_root){.path = from->root->path, .readonly = true};
    /* A container with a namespace for names and without a name may be one whose surroundings refuse to set
     * any. */
    if (from->hostname != NULL || !spec_new_namespace(from, "uts")) {
        out->hostname = HOST_NAME;
        out->domainname = DOMAIN_NAME;
    }
    make_mounts(a, start, program, needs, out);

    out->process = ARENA_NEW(a, struct spec_process);
    *out->process = *from->process;
    out->process->terminal = false;
    size_t count = 0;
    while (program->argv[count] != NULL)
        count++;
    if (program->memory > 0)
        bound_memory(a, program->memory, out->process);
    out->process->env = needs != NULL ? builder_needs_environment(a, needs, &from->process->env)
                                      : preload_agent(a, &from->process->env);
    out->process->args = (struct str_list){(const char **)(uintptr_t)program->argv, count};

    out->linux_ = ARENA_NEW(a, struct spec_linux);
    *out->linux_ = *from->linux_;
    make_namespaces(a, from, out->linux_);
    out->linux_->net_devices.count = 0;
    out->linux_->cgroups_path = make_cgroups_path(a, start, from->linux_->cgroups_path);
    return out;
}
