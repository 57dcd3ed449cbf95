/* The facts that only the plan of a container has: obstacles, limits, CPUs, credentials, labels. */
#include "prewarm/facts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "container/options.h"
#include "container/process.h"
#include "prewarm/credentials.h"
#include "prewarm/labels.h"
#include "prewarm/start.h"
#include "warm/decide.h"
#include "warm/root_view.h"
#include "warm/store/store.h"

/* Personality flags that execve clears for a process that gains capabilities: PER_CLEAR_ON_SETID. */
#define CLEARED (READ_IMPLIES_EXEC | ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT | MMAP_PAGE_ZERO)

/* Return what only execve can do to the process, or NULL. interpreter.c looks at the file, and the child at
 * its own securebits. */
static const char *change_of_execve(const struct process_plan *p)
{
    struct __user_cap_data_struct caps[2];
    const bool root = p->credentials.uid == 0;
    if (caps_after_exec(&p->caps, root, p->credentials.no_new_privs, caps) < 0)
        return "execve would give the process more capabilities than it has";
    if (caps_after_exec(&p->caps, root, false, caps) < 0 && (personality(0xffffffff) & CLEARED) != 0)
        return "execve would clear the personality with which the runtime was started (setarch)";
    return NULL;
}

/* exec then clones late, so that no process of the pid namespace traces the clone. */
static const char *tracers(const struct spec_namespaces *namespaces)
{
    for (size_t i = 0; i < namespaces->count; i++)
        if (str_eq(namespaces->items[i].type, "pid") && namespaces->items[i].path != NULL)
            return "the container shares its pid namespace, where processes of others may trace this one";
    return "processes of the container may trace others (CAP_SYS_PTRACE)";
}

/* Return a reason of the container for a cold start, in words for a user, or NULL. */
static const char *facts_obstacle(struct arena *a, const struct start *start, const char *credentials)
{
    const struct process_plan *p = start->process;
    const bool hooks = start->spec->hooks.start_container.count > 0;
    const struct {
        bool there;
        const char *reason;
    } rows[] = {
        /* Such a filter is loaded during create. */
        {p->seccomp.notify, "the seccomp filter has a listener"},
        {start->spec->linux_->personality != NULL, "linux.personality asks for another execution domain"},
        {p->preserve_fds > 0, "descriptors are passed on to the program"},
        {!start->own_mounts, "the container has no mount namespace of its own"},
        {credentials == NULL,
         "the path of the joined user namespace does not reveal its IDs, as /proc/PID/ns/user would"},
        /* A restorer installs the filter itself, after the hooks. That is too late if hooks can trace the
         * process. */
        {!start->exec && start->traceable && hooks,
         "startContainer hooks may trace the process (CAP_SYS_PTRACE)"},
        {start->exec && start->traceable, tracers(&start->spec->linux_->namespaces)},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].there)
            return rows[i].reason;
    const char *change = change_of_execve(p);
    return change != NULL ? change : labels_obstacle(a, start);
}

/* Return a limit that the process will have. */
static struct rlimit limit_of(const struct spec_process *process, const char *type, int resource)
{
    for (size_t i = 0; i < process->rlimits.count; i++)
        if (strcmp(process->rlimits.items[i].type, type) == 0)
            return (struct rlimit){process->rlimits.items[i].soft, process->rlimits.items[i].hard};
    struct rlimit now = {RLIM_INFINITY, RLIM_INFINITY};
    getrlimit(resource, &now);
    return now;
}

/* Return the limits by which libraries choose sizes, as imports may. libc sizes the stacks of threads by the
 * stack limit. */
static const char *limits_for_key(struct arena *a, const struct spec_process *process)
{
    struct rlimit stack = limit_of(process, "RLIMIT_STACK", RLIMIT_STACK);
    struct rlimit files = limit_of(process, "RLIMIT_NOFILE", RLIMIT_NOFILE);
    return arena_printf(a, "stack %" PRIu64 ", descriptors %" PRIu64 " of %" PRIu64, (uint64_t)stack.rlim_cur,
                        (uint64_t)files.rlim_cur, (uint64_t)files.rlim_max);
}

/* Return the values from which libraries derive the number of their threads. Libraries in Rust use the
 * quota. */
static const char *cpus_for_key(struct arena *a, const struct spec_resources *resources)
{
    const struct spec_cpu *cpu = resources != NULL ? resources->cpu : NULL;
    if (cpu == NULL || !cpu->quota.set || cpu->quota.value <= 0)
        return cpu != NULL ? cpu->cpus : NULL;
    return arena_printf(a, "%s, %" PRId64 " of %" PRIu64, cpu->cpus != NULL ? cpu->cpus : "all",
                        cpu->quota.value, cpu->period.set ? cpu->period.value : 0);
}

static uint64_t bound_of(struct opt_i64 given)
{
    return given.set && given.value > 0 ? (uint64_t)given.value : UINT64_MAX;
}

void facts_bounds(const struct start *start, struct store_bounds *out)
{
    static const struct {
        const char *type;
        int resource;
    } limits[] = {{"RLIMIT_AS", RLIMIT_AS},           {"RLIMIT_CPU", RLIMIT_CPU},
                  {"RLIMIT_DATA", RLIMIT_DATA},       {"RLIMIT_FSIZE", RLIMIT_FSIZE},
                  {"RLIMIT_MEMLOCK", RLIMIT_MEMLOCK}, {"RLIMIT_NPROC", RLIMIT_NPROC}};
    _Static_assert(sizeof(limits) / sizeof(limits[0]) + 2 == STORE_BOUNDS, "two limits are the cgroup's");
    const struct spec_resources *resources = start->spec->linux_->resources;
    const struct spec_memory *memory = resources != NULL ? resources->memory : NULL;
    size_t n = 0;
    out->items[n++] = memory != NULL ? bound_of(memory->limit) : UINT64_MAX;
    out->items[n++] = resources != NULL ? bound_of(resources->pids_limit) : UINT64_MAX;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        out->items[n++] = limit_of(start->spec->process, limits[i].type, limits[i].resource).rlim_cur;
}

int facts_decide(struct arena *a, const struct start *start, bool root_of_host, struct warm_plan *out,
                 struct error *err)
{
    const struct spec *spec = start->spec;
    const struct process_plan *process = start->process;
    struct root_view view;
    cleanup_fd int root = open(start->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_set(err, -errno, "open the root '%s'", start->rootfs);
    const struct owners *owners = credentials_owners(a, start);
    const char *credentials = owners != NULL ? credentials_key(a, start, owners) : NULL;
    root_view_plan(a, spec, root, start->bundle, &view);
    const struct warm_context context = {
        .facts = {.version = start->rt->version,
                  .envp = process->envp,
                  .cwd = process->cwd,
                  .uid = process->credentials.uid,
                  .gid = process->credentials.gid,
                  .limits = limits_for_key(a, spec->process),
                  .cpus = cpus_for_key(a, spec->linux_->resources),
                  .seccomp = spec->linux_->seccomp_text,
                  .credentials = credentials != NULL ? credentials : "",
                  .confinement = labels_key(a, start),
                  .view = &view},
        .annotations = &spec->annotations,
        .argv = process->argv,
        .search_path = process->search_path,
        .terminal = spec->process->terminal,
        .obstacle = facts_obstacle(a, start, credentials),
        .root_of_host = root_of_host,
    };
    return warm_decide(a, &context, out, err);
}
