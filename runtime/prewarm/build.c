/* Building a snapshot: the agent, the builder, the manifest and the dump. */
#include "prewarm/build.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/io.h"
#include "base/str.h"
#include "container/options.h"
#include "container/process.h"
#include "prewarm/builder.h"
#include "prewarm/credentials.h"
#include "prewarm/fit.h"
#include "prewarm/labels.h"
#include "prewarm/prewarm.h"
#include "warm/agent/agent.h"
#include "warm/dump/dump.h"
#include "warm/manifest/manifest.h"
#include "warm/params.h"
#include "warm/question.h"
#include "warm/root_view.h"

/* Return whether the file is the agent. Files of the store are not synced, so after a crash the file can be
 * empty. */
static bool is_agent(struct arena *a, int dir, const char *file)
{
    char *text;
    size_t size;
    return io_read_file_at(a, dir, file, agent_file_size() + 1, &text, &size) == 0 &&
           size == agent_file_size() && memcmp(text, agent_start, size) == 0;
}

/* Write the agent as a file that a builder can mount. It is in the store, named by its content. */
static int agent_file(struct arena *a, const struct prewarm *prewarm, const char **path, struct error *err)
{
    const char *file = arena_printf(a, "agent-%s.so", agent_identity);
    struct store store;
    int ret = store_open(prewarm->store, true, &store, err);
    if (ret < 0)
        return ret;
    if (!is_agent(a, store.dir, file)) {
        ret = io_replace_file_at(store.dir, file, agent_start, agent_file_size(), 0444);
        if (ret < 0) {
            error_set(err, ret, "write '%s/%s'", prewarm->store, file);
            store_advise(prewarm->store, err);
        }
    }
    store_close(&store);
    *path = arena_printf(a, "%s/%s", prewarm->store, file);
    return ret;
}

/* Return the command line of the builder's interpreter: its options, -c, the bootstrap, and the bootstrap's
 * arguments. These are the agent, the descriptor of the report, and the modules. */
static const char *const *builder_argv(struct arena *a, const struct prewarm *prewarm)
{
    const struct warm_plan *d = &prewarm->decision;
    const char **argv = ARENA_ARRAY(a, d->command_line.option_count + d->preload.count + 6, const char *);
    size_t n = 0;
    argv[n++] = prewarm->start->process->argv[0];
    for (size_t i = 0; i < d->command_line.option_count; i++)
        argv[n++] = d->command_line.options[i];
    argv[n++] = "-c";
    argv[n++] = agent_bootstrap;
    argv[n++] = WARM_AGENT_PATH;
    argv[n++] = arena_printf(a, "%d", BUILDER_REPORT_FD);
    for (size_t i = 0; i < d->preload.count; i++)
        argv[n++] = d->preload.items[i];
    return argv;
}

struct taking {
    const struct prewarm *prewarm;
    int64_t began;
    struct arena arena;
    void *meta; /* the manifest, in the arena */
    size_t meta_size;
};

/* Refuse imports that ask for a limit which is the builder's own (bound_memory() in builder_spec.c). */
static int build_check_limits(struct arena *a, const struct prewarm *prewarm,
                              const struct builder_report *report, struct error *err)
{
    const struct spec_rlimits *given = &prewarm->start->spec->process->rlimits;
    const char *question = arena_printf(a, QUESTION_LIMIT "%d", RLIMIT_AS);
    for (size_t i = 0; i < given->count; i++)
        if (str_eq(given->items[i].type, "RLIMIT_AS"))
            return 0;
    if (prewarm->decision.config.builder.memory == 0)
        return 0;
    for (const char *record = report->data; record < report->data + report->size;
         record += strlen(record) + 1)
        if (record[0] == 'V' && str_eq(record + strcspn(record, ":") + 1, question))
            return error_text(err, -ENOTSUP,
                              "the imports ask for the limit of the address space (RLIMIT_AS), which is "
                              "another while a snapshot is made: set it in process.rlimits");
    return 0;
}

/* Make the manifest from the identities of the files that the probe has looked at, before the builder reads
 * them. */
static int take_probe(void *arg, int root, const struct builder_report *report, struct error *err)
{
    struct taking *t = arg;
    const struct start *start = t->prewarm->start;
    const struct process_plan *process = start->process;
    struct root_view view = {.root = root}, plan;
    root_view_plan(&t->arena, start->spec, root, start->bundle, &plan);
    char *const *envp = fit_environment(&t->arena, process, &view);
    const struct owners *owners = credentials_owners(&t->arena, start);
    if (owners == NULL)
        return error_text(err, -ENOENT, "the process of the joined user namespace has ended");
    struct manifest_source source = {.report = report->data,
                                     .report_size = report->size,
                                     .key = &t->prewarm->decision.key,
                                     .envp = process->envp,
                                     .home = process->home_missing ? envp[process->home_slot] : NULL,
                                     .view = &view,
                                     .plan = &plan,
                                     .owners = owners,
                                     .builder = start->rt->version,
                                     .built = (int64_t)time(NULL),
                                     .began = t->began};
    int ret = labels_check(&t->arena, start, root, report, err);
    if (ret == 0)
        ret = build_check_limits(&t->arena, t->prewarm, report, err);
    return ret < 0 ? ret : manifest_build(&t->arena, &source, &t->meta, &t->meta_size, err);
}

/* Save the builder's interpreter if its imports have read the files of the manifest. */
static int take_builder(void *arg, pid_t pid, int root, const struct builder_report *report,
                        struct error *err)
{
    struct taking *t = arg;
    const struct prewarm *prewarm = t->prewarm;
    struct root_view view = {.root = root};
    struct manifest *manifest;
    int ret = manifest_open(&t->arena, t->meta, t->meta_size, &manifest, err);
    if (ret == 0)
        ret = manifest_verify(manifest, &view, NULL, err);
    if (ret == 0)
        ret = manifest_check_environment(manifest, fit_environment(&t->arena, prewarm->start->process, &view),
                                         err);
    if (ret < 0)
        return error_wrap(err, "while the snapshot was made");
    const struct dump_request dump = {.pid = pid,
                                      .pid_namespace = &report->pid_namespace,
                                      .limit = prewarm->decision.config.max_size,
                                      .root = root,
                                      .began = t->began,
                                      .agent_path = WARM_AGENT_PATH,
                                      .park = AGENT_PARK,
                                      .rehearsal = report->rehearsal,
                                      .meta = t->meta,
                                      .meta_size = t->meta_size,
                                      .out = prewarm->entry.out};
    ret = warm_dump(&dump, err);
    if (ret < 0)
        store_advise(prewarm->store, err);
    return ret;
}

static int64_t build_nanoseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The maximum number of looks at the clock, which may have been set back. */
#define LOOKS_MAX 1000

/* Return the change time that files get from now on, in nanoseconds since 1970. The clock of files advances
 * in ticks, but since Linux 6.13 a file that was looked at gets the precise time of its next change. So wait
 * until the ticks have passed the precise time: earlier changes then have an earlier time. */
static int64_t next_tick(void)
{
    int64_t first = build_nanoseconds(CLOCK_REALTIME), now = 0;
    for (int i = 0; i < LOOKS_MAX && now <= first; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        now = build_nanoseconds(CLOCK_REALTIME_COARSE);
    }
    return now;
}

int build_snapshot(struct arena *a, struct prewarm *prewarm, struct error *err)
{
    const struct start *start = prewarm->start;
    const struct warm_plan *decision = &prewarm->decision;
    struct taking taking = {.prewarm = prewarm, .began = next_tick()};
    struct builder_request request = {.start = start,
                                      .program = {.path = decision->program,
                                                  .argv = builder_argv(a, prewarm),
                                                  .memory = decision->config.builder.memory},
                                      .timeout = decision->config.builder.timeout,
                                      .probed = take_probe,
                                      .parked = take_builder,
                                      .arg = &taking};
    int ret = agent_file(a, prewarm, &request.program.agent, err);
    if (ret == 0)
        ret = labels_agent(a, start, decision->program, request.program.agent, err);
    if (ret == 0)
        ret = builder_run(&request, err);
    if (ret < 0 && err->kind == ERROR_OTHER)
        error_classify(err, ret == -ENOEXEC ? ERROR_IMPORTS_REFUSED : ERROR_NOT_MADE, ret);
    struct store store;
    struct error later = {0};
    if (store_open(prewarm->store, true, &store, &later) < 0)
        return ret < 0 ? ret : (*err = later, later.code);
    if (ret < 0)
        store_fail(&store, &prewarm->entry, err);
    else if ((ret = store_commit(&store, &decision->config, &prewarm->entry, err)) < 0)
        store_advise(prewarm->store, err);
    store_close(&store);
    return ret;
}
