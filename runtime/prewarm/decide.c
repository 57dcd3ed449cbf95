/* From the decision to the snapshot. */
#include "prewarm/decide.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "container/execve.h"
#include "container/process.h"
#include "prewarm/build.h"
#include "prewarm/facts.h"
#include "prewarm/fit.h"
#include "prewarm/labels.h"
#include "prewarm/prewarm.h"
#include "prewarm/restore_launch.h"
#include "sandbox/namespaces.h"
#include "warm/session.h"

int prewarm_root_of_host(struct error *err)
{
    int initial = namespaces_in_initial_user(err);
    return initial < 0 ? initial : geteuid() == 0 && initial != 0;
}

int prewarm_open_store(struct arena *a, struct store *out, struct error *err)
{
    int root_of_host = prewarm_root_of_host(err);
    if (root_of_host < 0)
        return root_of_host;
    const char *path = store_path(a, root_of_host);
    if (path == NULL)
        return error_text(err, -ENOENT,
                          "there is no place for snapshots: neither XDG_DATA_HOME nor HOME is set");
    return store_open(path, false, out, err);
}

/* Decide for a cold start, for this reason. Return an error with this code in mode "require", else 0. */
static int go_cold(struct prewarm *prewarm, struct arena *a, enum error_kind kind, const char *reason,
                   int code, struct error *err)
{
    prewarm->decision.reason = arena_strdup(a, reason);
    prewarm->decision.kind = kind;
    log_debug("cold start: %s", reason);
    if (prewarm->decision.mode != WARM_REQUIRE)
        return 0;
    error_classify(err, kind, error_text(err, code, "%s", reason));
    return error_wrap(err, WARM_ANNOTATION_MODE "=require");
}

/* Write the member for `plan`, and for a cold start. */
static void describe(const struct launch *launch, struct json_out *out)
{
    const struct prewarm *prewarm = launch->state;
    warm_describe(&prewarm->decision, prewarm->entry.answer == STORE_READY ? "ready" : "to be made", out);
}

static void decide_release(const struct launch *launch)
{
    restore_launch_release(launch->state);
}

static const struct launch_parent cold_parent = {.describe = describe, .release = decide_release};

int prewarm_decide(struct arena *a, const struct start *start, struct prewarm **out, struct error *err)
{
    *out = NULL;
    if (!warm_is_candidate(start->process->argv[0])) {
        if (!str_eq(spec_annotation(start->spec, WARM_ANNOTATION_MODE), "require"))
            return 0;
        return error_classify(err, ERROR_NOT_RESTORABLE,
                              error_text(err, -ENOTSUP,
                                         WARM_ANNOTATION_MODE
                                         "=require: the program '%s' is not called like a Python interpreter",
                                         start->process->argv[0]));
    }
    struct prewarm *prewarm = ARENA_NEW(a, struct prewarm);
    *prewarm = (struct prewarm){
        .launch = {.child = launch_execve.child,
                   .parent = &cold_parent,
                   .state = prewarm,
                   .kept = {-1, -1, -1}},
        .start = start,
        .entry = {.file = -1, .lock = -1, .out = -1},
        .agent = -1,
        .base = -1,
    };
    int root_of_host = prewarm_root_of_host(err);
    if (root_of_host < 0)
        return root_of_host;
    int ret = facts_decide(a, start, root_of_host, &prewarm->decision, err);
    if (ret < 0)
        return ret;
    prewarm->store = store_path(a, root_of_host);
    start->process->launch = &prewarm->launch;
    *out = prewarm;
    if (prewarm->decision.reason != NULL || prewarm->store != NULL)
        return 0;
    return go_cold(prewarm, a, ERROR_NO_STORE, "there is no place for snapshots: HOME is not set", -ENOTSUP,
                   err);
}

/* Return whether nothing is preloaded, so that the first start may be cold. With "require", not even the
 * first one may be. */
static bool is_bare(const struct warm_plan *decision)
{
    return decision->bare && decision->mode != WARM_REQUIRE;
}

static int decide_ask(struct arena *a, struct prewarm *prewarm, bool look, bool force, struct error *err)
{
    struct store store;
    int ret = store_open(prewarm->store, !look, &store, err);
    if (ret < 0)
        return ret;
    const struct warm_plan *decision = &prewarm->decision;
    struct store_bounds bounds;
    facts_bounds(prewarm->start, &bounds);
    struct store_question question = {.key = &decision->key,
                                      .config = &decision->config,
                                      .bounds = &bounds,
                                      .bare = is_bare(decision),
                                      .force = force,
                                      .look = look};
    ret = store_ask(a, &store, &question, &prewarm->entry, err);
    if (ret < 0)
        store_advise(prewarm->store, err);
    if (ret == 0 && !look && !force && prewarm->entry.answer == STORE_READY)
        store_count_use(&store, prewarm->entry.name);
    store_close(&store);
    return ret;
}

/* The store has a snapshot. Return why the container must not have it, or NULL. */
static const char *refusal(struct arena *a, const struct prewarm *prewarm)
{
    return labels_refusal(a, prewarm->start, prewarm->decision.program, prewarm->entry.file);
}

/* Ask the store without taking a snapshot from it, and compare what the child would find. */
static void decide_look(struct arena *a, struct prewarm *prewarm)
{
    struct warm_plan *decision = &prewarm->decision;
    struct error why = {0};
    int ret = decide_ask(a, prewarm, true, false, &why);
    if (ret == -ENOENT) { /* there is no store yet */
        bool first = is_bare(decision) && decision->config.second_run;
        prewarm->entry.answer = first ? STORE_COLD : STORE_BUILD;
        prewarm->entry.reason = STORE_FIRST_RUN;
        prewarm->entry.kind = ERROR_FIRST_RUN;
        ret = 0;
    }
    decision->kind = ERROR_SNAPSHOT_UNFIT;
    if (ret < 0) {
        decision->reason = arena_strdup(a, why.text);
        decision->kind = ERROR_NO_STORE;
    } else if (prewarm->entry.answer == STORE_COLD) {
        decision->reason = prewarm->entry.reason;
        decision->kind = prewarm->entry.kind;
    } else if (prewarm->entry.answer == STORE_READY) {
        decision->reason = refusal(a, prewarm);
    }
    if (decision->reason == NULL && prewarm->entry.answer == STORE_READY)
        decision->reason = fit_reason(a, prewarm->start, decision, prewarm->entry.manifest);
}

int prewarm_look(struct arena *a, struct prewarm *prewarm, struct error *err)
{
    struct warm_plan *decision = &prewarm->decision;
    if (decision->reason != NULL)
        return 0;
    decide_look(a, prewarm);
    return decision->reason != NULL ? go_cold(prewarm, a, decision->kind, decision->reason, -ENOTSUP, err)
                                    : 0;
}

/* Open the snapshot, or copy the descriptor of the socket over which it will come. */
static int take_file(const struct session_source *source, const char *path, struct prewarm *prewarm,
                     struct error *err)
{
    struct snapshot *snapshot = &prewarm->entry.mapped;
    if (prewarm->received) {
        prewarm->entry.file = fcntl(source->socket, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        return prewarm->entry.file < 0 ? error_set(err, -errno, "copy descriptor %d", source->socket) : 0;
    }
    prewarm->entry.file = session_open(path, snapshot, err);
    if (prewarm->entry.file < 0)
        return prewarm->entry.file;
    return session_open_base(path, snapshot, source->base, &prewarm->base, err);
}

/* Continue a session, or fail: a cold start would lose its state. */
static int take_session(struct arena *a, const struct session_source *source, struct prewarm *prewarm,
                        struct error *err)
{
    const char *path = source->path != NULL ? source->path : "--snapshot-fd";
    if (prewarm == NULL || prewarm->decision.reason != NULL)
        return error_text(err, -ENOTSUP, "cannot continue from '%s': %s", path,
                          prewarm != NULL ? prewarm->decision.reason : "the program is not CPython");
    prewarm->decision.mode = WARM_REQUIRE;
    prewarm->session = true;
    prewarm->entry.answer = STORE_READY;
    prewarm->received = source->path == NULL;
    if (prewarm->received && prewarm->start->process->selinux.label != NULL)
        return error_text(err, -ENOTSUP, "'%s' cannot have an SELinux label: give --snapshot", path);
    int ret = take_file(source, path, prewarm, err);
    if (ret < 0)
        return ret;
    const char *reason = refusal(a, prewarm);
    if (reason != NULL)
        return error_text(err, -EACCES, "cannot continue from '%s': %s", path, reason);
    return restore_launch(a, prewarm, err);
}

int prewarm_prepare(struct arena *a, const struct session_source *session, struct prewarm *prewarm,
                    struct error *err)
{
    if (session != NULL) {
        int ret = take_session(a, session, prewarm, err);
        return ret < 0 ? error_classify(err, ERROR_SNAPSHOT_UNFIT, ret) : ret;
    }
    if (prewarm == NULL)
        return 0;
    struct warm_plan *decision = &prewarm->decision;
    if (decision->unseen && decision->mode == WARM_REQUIRE) {
        restore_launch_refuse(prewarm);
        return 0;
    }
    if (decision->reason != NULL)
        return go_cold(prewarm, a, decision->kind, decision->reason, -ENOTSUP, err);
    struct error why = {0};
    int ret = decide_ask(a, prewarm, false, false, &why);
    if (ret == 0 && prewarm->entry.answer == STORE_BUILD) {
        ret = build_snapshot(a, prewarm, &why);
        if (ret == 0)
            ret = decide_ask(a, prewarm, false, false, &why);
    }
    if (ret < 0)
        return go_cold(prewarm, a, why.kind != ERROR_OTHER ? why.kind : ERROR_NO_STORE, why.text, ret, err);
    if (prewarm->entry.answer != STORE_READY)
        return go_cold(prewarm, a, prewarm->entry.kind, prewarm->entry.reason, -ENOTSUP, err);
    const char *reason = refusal(a, prewarm);
    if (reason != NULL)
        return go_cold(prewarm, a, ERROR_SNAPSHOT_UNFIT, reason, -ENOTSUP, err);
    ret = restore_launch(a, prewarm, &why);
    return ret < 0 ? go_cold(prewarm, a, ERROR_SNAPSHOT_UNFIT, why.text, ret, err) : 0;
}

int prewarm_force(struct arena *a, struct prewarm *prewarm, struct error *err)
{
    if (prewarm->decision.reason != NULL)
        return error_classify(
            err, prewarm->decision.kind,
            error_text(err, -ENOTSUP, "no snapshot can be made: %s", prewarm->decision.reason));
    int ret = decide_ask(a, prewarm, false, true, err);
    if (ret < 0)
        return ret;
    if (prewarm->entry.answer == STORE_BUILD)
        return build_snapshot(a, prewarm, err);
    return prewarm->entry.answer == STORE_READY
               ? 0
               : error_classify(err, prewarm->entry.kind,
                                error_text(err, -ENOTSUP, "%s", prewarm->entry.reason));
}
