/* Warm start of a container's program, the runtime's part: decision, look-up, making of the snapshot. */
#include "container/warm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/json_out.h"
#include "base/log.h"
#include "base/str.h"
#include "container/sync.h"
#include "container/template.h"
#include "container/warm_label.h"
#include "container/warm_rights.h"
#include "sandbox/namespaces.h"
#include "warm/agent/agent.h"
#include "warm/dump/dump.h"
#include "warm/manifest/manifest.h"
#include "warm/params.h"
#include "warm/root_view.h"
#include "warm/session.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* What stands in the way and only the plan knows. */
static unsigned obstacles(const struct plan *plan, const char *rights)
{
    const struct process_plan *p = &plan->process;
    const struct {
        bool there;
        enum warm_obstacle obstacle;
    } rows[] = {
        {p->seccomp.notify, WARM_OBSTACLE_LISTENER},
        {plan->spec->linux_->personality != NULL, WARM_OBSTACLE_PERSONALITY},
        {p->preserve_fds > 0, WARM_OBSTACLE_PRESERVED_FDS},
        {(plan->namespaces.make & CLONE_NEWNS) == 0, WARM_OBSTACLE_NO_OWN_ROOT},
        {rights == NULL, WARM_OBSTACLE_UNKNOWN_IDS},
    };
    unsigned found = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].there)
            found |= rows[i].obstacle;
    return found;
}

/* A limit that the process will have. */
static struct rlimit limit_of(const struct spec_process *process, const char *type, int resource)
{
    for (size_t i = 0; i < process->rlimits.count; i++)
        if (strcmp(process->rlimits.items[i].type, type) == 0)
            return (struct rlimit){process->rlimits.items[i].soft, process->rlimits.items[i].hard};
    struct rlimit now = {RLIM_INFINITY, RLIM_INFINITY};
    getrlimit(resource, &now);
    return now;
}

/* What libraries choose the size of things by, and so may imports: of the stack, libc those of threads. */
static const char *limits_for_key(struct arena *a, const struct spec_process *process)
{
    struct rlimit stack = limit_of(process, "RLIMIT_STACK", RLIMIT_STACK);
    struct rlimit files = limit_of(process, "RLIMIT_NOFILE", RLIMIT_NOFILE);
    return arena_printf(a, "stack %" PRIu64 ", descriptors %" PRIu64 " of %" PRIu64, (uint64_t)stack.rlim_cur,
                        (uint64_t)files.rlim_cur, (uint64_t)files.rlim_max);
}

/* What tells how many processors there are: libraries start as many threads, of Rust by the quota. */
static const char *processors_for_key(struct arena *a, const struct spec_resources *resources)
{
    const struct spec_cpu *cpu = resources != NULL ? resources->cpu : NULL;
    if (cpu == NULL || !cpu->quota.set || cpu->quota.value <= 0)
        return cpu != NULL ? cpu->cpus : NULL;
    return arena_printf(a, "%s, %" PRId64 " of %" PRIu64, cpu->cpus != NULL ? cpu->cpus : "all",
                        cpu->quota.value, cpu->period.set ? cpu->period.value : 0);
}

static int decide(struct arena *a, const struct runtime_options *rt, const struct plan *plan,
                  bool root_of_host, struct warm_plan *out, struct error *err)
{
    const struct spec *spec = plan->spec;
    struct look look;
    cleanup_fd int root = open(plan->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_set(err, -errno, "open the root '%s'", plan->rootfs);
    const char *rights = warm_rights(a, plan);
    look_plan(a, spec, root, plan->bundle, &look);
    struct warm_context context = {
        .version = rt->version,
        .annotations = &spec->annotations,
        .argv = plan->process.argv,
        .envp = plan->process.envp,
        .search_path = plan->process.search_path,
        .cwd = plan->process.cwd,
        .uid = plan->process.identity.uid,
        .gid = plan->process.identity.gid,
        .terminal = spec->process->terminal,
        .limits = limits_for_key(a, spec->process),
        .cpus = processors_for_key(a, spec->linux_->resources),
        .seccomp = spec->linux_->seccomp_text,
        .obstacles = obstacles(plan, rights),
        .label_obstacle = warm_label_obstacle(a, plan),
        .rights = rights,
        .confinement = warm_label_key(a, plan),
        .look = &look,
        .root_of_host = root_of_host,
    };
    int ret = warm_decide(a, &context, out, err);
    return ret;
}

int warm_root_of_host(struct error *err)
{
    int initial = namespaces_in_initial_user(err);
    return initial < 0 ? initial : geteuid() == 0 && initial != 0;
}

int warm_start_plan(struct arena *a, const struct runtime_options *rt, struct plan *plan, struct error *err)
{
    if (!plan->has_process)
        return 0;
    if (!warm_is_candidate(plan->process.argv[0])) {
        if (!str_eq(spec_annotation(plan->spec, WARM_ANNOTATION_MODE), "require"))
            return 0;
        return error_text(err, -ENOTSUP,
                          WARM_ANNOTATION_MODE
                          "=require: the program '%s' is not called like a Python interpreter",
                          plan->process.argv[0]);
    }
    struct warm_start *warm = ARENA_NEW(a, struct warm_start);
    *warm = (struct warm_start){.slot = {.image = -1, .lock = -1, .out = -1}, .agent = -1};
    int root_of_host = warm_root_of_host(err);
    if (root_of_host < 0)
        return root_of_host;
    int ret = decide(a, rt, plan, root_of_host, &warm->decision, err);
    if (ret < 0)
        return ret;
    warm->reason = warm->decision.wanted ? NULL : warm->decision.reason;
    warm->store = store_path(a, root_of_host);
    if (warm->reason == NULL && warm->store == NULL)
        warm->reason = "there is no place for snapshots: HOME is not set";
    plan->warm = warm;
    return 0;
}

/* Cold, for a reason: an error if warm is required. */
static int go_cold(struct warm_start *warm, struct arena *a, const char *reason, int code, struct error *err)
{
    warm->reason = arena_strdup(a, reason);
    log_debug("cold start: %s", reason);
    if (warm->decision.mode != WARM_REQUIRE)
        return 0;
    return error_text(err, code, WARM_ANNOTATION_MODE "=require: %s", reason);
}

static int ask(struct arena *a, struct warm_start *warm, bool look, bool force, struct error *err)
{
    struct store store;
    int ret = store_open(warm->store, !look, &store, err);
    if (ret < 0)
        return ret;
    struct store_question question = {.key = &warm->decision.key,
                                      .config = &warm->decision.config,
                                      /* Who requires a warm start does not want a first one to be cold. */
                                      .bare = warm->decision.preload.count == 0 &&
                                              warm->decision.mode != WARM_REQUIRE,
                                      .force = force,
                                      .look = look};
    ret = store_ask(a, &store, &question, &warm->slot, err);
    if (ret < 0)
        store_advise(warm->store, err);
    if (ret == 0 && !look && !force && warm->slot.answer == STORE_READY)
        store_count_use(&store, warm->slot.name);
    store_close(&store);
    return ret;
}

int warm_start_look(struct arena *a, struct warm_start *warm, struct error *err)
{
    if (warm->reason != NULL)
        return 0;
    int ret = ask(a, warm, true, false, err);
    if (ret == -ENOENT) { /* no store yet */
        warm->slot.answer = warm->decision.preload.count > 0 ? STORE_BUILD : STORE_COLD;
        warm->slot.reason = "there is no snapshot yet";
        ret = 0;
    }
    if (ret == 0 && warm->slot.answer == STORE_COLD)
        warm->reason = warm->slot.reason;
    return ret;
}

static size_t agent_size(void)
{
    return (uintptr_t)agent_end - (uintptr_t)agent_start;
}

/* Nothing is synced in the store: after a crash the file may be there and empty. */
static bool is_agent(struct arena *a, int dir, const char *file)
{
    char *text;
    size_t size;
    return io_read_file_at(a, dir, file, agent_size() + 1, &text, &size) == 0 && size == agent_size() &&
           memcmp(text, agent_start, size) == 0;
}

/* The agent as a file that a template can mount: in the store, named by its content. */
static int agent_file(struct arena *a, const struct warm_start *warm, const char **path, struct error *err)
{
    const char *file = arena_printf(a, "agent-%s.so", agent_identity);
    struct store store;
    int ret = store_open(warm->store, true, &store, err);
    if (ret < 0)
        return ret;
    if (!is_agent(a, store.dir, file)) {
        ret = io_replace_file_at(store.dir, file, agent_start, agent_size(), 0444);
        if (ret < 0) {
            error_set(err, ret, "write '%s/%s'", warm->store, file);
            store_advise(warm->store, err);
        }
    }
    store_close(&store);
    *path = arena_printf(a, "%s/%s", warm->store, file);
    return ret;
}

/* interpreter, its options, -c, the bootstrap and its arguments: the agent, the report's descriptor, modules
 */
static const char *const *template_argv(struct arena *a, const struct plan *plan)
{
    const struct warm_plan *d = &plan->warm->decision;
    const char **argv = ARENA_ARRAY(a, d->command_line.option_count + d->preload.count + 6, const char *);
    size_t n = 0;
    argv[n++] = plan->process.argv[0];
    for (size_t i = 0; i < d->command_line.option_count; i++)
        argv[n++] = d->command_line.options[i];
    argv[n++] = "-c";
    argv[n++] = agent_bootstrap;
    argv[n++] = WARM_AGENT_PATH;
    argv[n++] = arena_printf(a, "%d", TEMPLATE_REPORT_FD);
    for (size_t i = 0; i < d->preload.count; i++)
        argv[n++] = d->preload.items[i];
    return argv;
}

struct taking {
    const struct runtime_options *rt;
    const struct plan *plan;
    int64_t began;
    struct arena arena;
    void *meta; /* the manifest, in the arena */
    size_t meta_size;
};

/* The manifest says what the files were that the probe has looked at, before the template reads them. */
static int take_probe(void *arg, int root, const struct template_report *report, struct error *err)
{
    struct taking *t = arg;
    const struct warm_start *warm = t->plan->warm;
    struct look look = {.root = root};
    struct manifest_source source = {.report = report->data,
                                     .report_size = report->size,
                                     .key = &warm->decision.key,
                                     .envp = t->plan->process.envp,
                                     .look = &look,
                                     .builder = t->rt->version,
                                     .built = (int64_t)time(NULL),
                                     .began = t->began};
    int ret = warm_label_check(&t->arena, t->plan, root, report, err);
    return ret < 0 ? ret : manifest_build(&t->arena, &source, &t->meta, &t->meta_size, err);
}

/* Its imports are to have read what the manifest says. */
static int take_template(void *arg, pid_t pid, int root, const struct template_report *report,
                         struct error *err)
{
    struct taking *t = arg;
    const struct warm_start *warm = t->plan->warm;
    struct look look = {.root = root};
    struct manifest *manifest;
    int ret = manifest_open(&t->arena, t->meta, t->meta_size, &manifest, err);
    if (ret == 0)
        ret = manifest_verify(manifest, &look, NULL, err);
    if (ret < 0)
        return error_wrap(err, "while the snapshot was made");
    const struct dump_request dump = {.pid = pid,
                                      .pid_namespace = &report->pid_namespace,
                                      .limit = warm->decision.config.max_size,
                                      .root = root,
                                      .began = t->began,
                                      .agent_path = WARM_AGENT_PATH,
                                      .park = AGENT_PARK,
                                      .rehearsal = report->rehearsal,
                                      .meta = t->meta,
                                      .meta_size = t->meta_size,
                                      .out = warm->slot.out};
    ret = warm_dump(&dump, err);
    if (ret < 0)
        store_advise(warm->store, err);
    return ret;
}

/* The time that files get which change from now on, in nanoseconds since 1970. It is a clock of ticks; a new
 * one is waited for, so that what has changed already has an earlier time. */
static int64_t next_tick(void)
{
    struct timespec first, now;
    clock_gettime(CLOCK_REALTIME_COARSE, &first);
    do {
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
    } while (now.tv_sec == first.tv_sec && now.tv_nsec == first.tv_nsec);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Make the snapshot that the slot is reserved for. */
static int build(struct arena *a, const struct runtime_options *rt, const struct create_options *options,
                 struct plan *plan, struct error *err)
{
    struct warm_start *warm = plan->warm;
    struct store store;
    struct template_request request = {.rt = rt,
                                       .options = options,
                                       .plan = plan,
                                       .argv = template_argv(a, plan),
                                       .timeout = warm->decision.config.template_.timeout,
                                       .memory = warm->decision.config.template_.memory};
    struct taking taking = {.rt = rt, .plan = plan, .began = next_tick()};
    const struct template_taker taker = {.probed = take_probe, .take = take_template, .arg = &taking};
    int ret = agent_file(a, warm, &request.agent, err);
    if (ret == 0)
        ret = warm_label_agent(a, plan, warm->decision.program, request.agent, err);
    if (ret == 0)
        ret = template_run(&request, &taker, err);
    struct error later = {0};
    if (store_open(warm->store, true, &store, &later) < 0)
        return ret < 0 ? ret : (*err = later, later.code);
    if (ret < 0)
        store_fail(&store, &warm->slot, err->text);
    else if ((ret = store_commit(&store, &warm->decision.config, &warm->slot, err)) < 0)
        store_advise(warm->store, err);
    store_close(&store);
    return ret;
}

/* The agent for the restored process, in memory that nobody can change. */
static int seal_agent(struct error *err)
{
    size_t size = agent_size();
    cleanup_fd int fd = memfd_create(AGENT_FILE, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(AGENT_FILE, MFD_CLOEXEC | MFD_ALLOW_SEALING); /* MFD_EXEC is of Linux 6.3 */
    int ret = fd < 0 ? -errno : io_write_full(fd, agent_start, size);
    if (ret == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        ret = -errno;
    return ret < 0 ? error_set(err, ret, "copy the agent to a file in memory") : fd_steal(&fd);
}

/* A session is continued, or that is an error: a cold start would have lost its state. */
static int prepare_session(struct arena *a, const struct create_options *options, struct plan *plan,
                           struct error *err)
{
    struct warm_start *warm = plan->warm;
    if (warm == NULL || warm->reason != NULL)
        return error_text(err, -ENOTSUP, "cannot continue from '%s': %s", options->snapshot,
                          warm != NULL ? warm->reason : "the program is not CPython");
    warm->decision.mode = WARM_REQUIRE;
    warm->session = true;
    warm->slot.answer = STORE_READY;
    warm->slot.image = session_open(options->snapshot, &warm->slot.mapped, err);
    if (warm->slot.image < 0)
        return warm->slot.image;
    const char *refusal = warm_label_refusal(a, plan, warm->decision.program, warm->slot.image);
    if (refusal != NULL)
        return error_text(err, -EACCES, "cannot continue from '%s': %s", options->snapshot, refusal);
    warm->agent = seal_agent(err);
    if (warm->agent < 0)
        return warm->agent;
    plan->process.warm = warm;
    return 0;
}

int warm_start_prepare(struct arena *a, const struct runtime_options *rt,
                       const struct create_options *options, struct plan *plan, struct error *err)
{
    struct warm_start *warm = plan->warm;
    if (options->snapshot != NULL)
        return prepare_session(a, options, plan, err);
    if (warm == NULL)
        return 0;
    struct error why = {0};
    if (warm->decision.unseen && warm->decision.mode == WARM_REQUIRE) {
        plan->process.warm_refusal = warm->reason;
        return 0;
    }
    if (warm->reason != NULL)
        return go_cold(warm, a, warm->reason, -ENOTSUP, err);
    int ret = ask(a, warm, false, false, &why);
    if (ret == 0 && warm->slot.answer == STORE_BUILD) {
        ret = build(a, rt, options, plan, &why);
        if (ret == 0)
            ret = ask(a, warm, false, false, &why);
    }
    if (ret < 0)
        return go_cold(warm, a, why.text, ret, err);
    if (warm->slot.answer != STORE_READY)
        return go_cold(warm, a, warm->slot.reason, -ENOTSUP, err);
    const char *refusal = warm_label_refusal(a, plan, warm->decision.program, warm->slot.image);
    if (refusal != NULL)
        return go_cold(warm, a, refusal, -ENOTSUP, err);
    warm->agent = seal_agent(&why);
    if (warm->agent < 0)
        return go_cold(warm, a, why.text, warm->agent, err);
    plan->process.warm = warm;
    return 0;
}

int warm_start_build(struct arena *a, const struct runtime_options *rt, const struct create_options *options,
                     struct plan *plan, struct error *err)
{
    struct warm_start *warm = plan->warm;
    if (warm == NULL)
        return error_text(err, -EINVAL, "no snapshot can be made: the program '%s' is not CPython",
                          plan->has_process ? plan->process.argv[0] : "");
    if (warm->reason != NULL)
        return error_text(err, -ENOTSUP, "no snapshot can be made: %s", warm->reason);
    int ret = ask(a, warm, false, true, err);
    if (ret < 0)
        return ret;
    if (warm->slot.answer == STORE_BUILD)
        return build(a, rt, options, plan, err);
    return warm->slot.answer == STORE_READY ? 0 : error_text(err, -ENOTSUP, "%s", warm->slot.reason);
}

void warm_start_divide(struct warm_start *warm, const struct spec_hooks *hooks)
{
    /* Hooks of the runtime too: they may mount in the child's namespace, which is not seen from outside. */
    if (warm->session ||
        hooks->create_container.count + hooks->create_runtime.count + hooks->prestart.count > 0)
        return;
    void *shared =
        mmap(NULL, sizeof(*warm->turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    warm->turns = shared != MAP_FAILED ? shared : NULL;
    warm->beside = warm->turns != NULL && hooks->start_container.count == 0;
}

int warm_start_verify(struct arena *a, const struct plan *plan, int channel, struct error *err)
{
    const struct warm_start *warm = plan->process.warm;
    if (warm == NULL || warm->turns == NULL)
        return 0;
    struct error reason = {0};
    struct look look;
    cleanup_fd int root = open(plan->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
    look_plan(a, plan->spec, root, plan->bundle, &look);
    /* Where a mount can only be seen from within, every turn is left to the child. */
    int ret = root >= 0 && look_is_exact(&look)
                  ? manifest_verify(warm->slot.manifest, &look, warm->turns, &reason)
                  : 0;
    if (ret < 0)
        sync_send_reason(channel, SYNC_COLD, &reason);
    else if ((ret = sync_send(channel, SYNC_GO)) < 0 && ret != -EPIPE)
        return error_set(err, ret, "send to the container's first process");
    return 0;
}

void warm_start_release(struct warm_start *warm)
{
    if (warm == NULL)
        return;
    struct store store = {.path = warm->store, .dir = -1};
    struct error ignored = {0};
    if (warm->slot.answer == STORE_BUILD)
        store_open(warm->store, false, &store, &ignored);
    store_release(&store, &warm->slot);
    store_close(&store);
    if (warm->turns != NULL)
        munmap(warm->turns, sizeof(*warm->turns));
    fd_close(&warm->agent);
}

void warm_start_refused(const struct warm_start *warm, const struct error *reason)
{
    struct store store;
    struct error ignored = {0};
    log_debug("cold start: %s", reason->text);
    if (warm->session || (reason->code != -ESTALE && reason->code != -ENOTSUP) ||
        store_open(warm->store, false, &store, &ignored) < 0)
        return;
    store_mark_stale(&store, warm->slot.name, reason->text);
    store_close(&store);
}

void warm_start_describe(const struct warm_start *warm, struct json_out *out)
{
    const char *snapshot = warm->reason != NULL               ? warm->reason
                           : warm->slot.answer == STORE_READY ? "ready"
                                                              : "to be made";
    warm_describe(&warm->decision, snapshot, out);
}
