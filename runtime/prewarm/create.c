/* create, run, plan and `warm build`. */
#include "container/create.h"

#include <errno.h>

#include "base/error.h"
#include "container/run.h"
#include "container/status_file.h"
#include "prewarm/commands.h"
#include "prewarm/decide.h"
#include "prewarm/prewarm.h"
#include "prewarm/start.h"
#include "prewarm/start_plan.h"

static bool is_session(const struct session_source *source)
{
    return source->path != NULL || source->socket >= 0;
}

/* Plan the container and how its program begins. */
static int create_plan(const struct runtime_options *rt, const struct create_options *options,
                       enum creation_goal goal, struct creation *c, struct prewarm **prewarm,
                       struct error *err)
{
    *prewarm = NULL;
    int ret = creation_plan(rt, options, NULL, goal, c, err);
    if (ret < 0)
        return ret;
    plan_warn(&c->arena, &c->plan);
    if (!c->plan.has_process)
        return 0;
    return prewarm_decide(&c->arena, start_of_plan(rt, options, c), prewarm, err);
}

static int create_make(const struct runtime_options *rt, const struct create_options *options,
                       enum creation_goal goal, struct creation *c, struct error *err)
{
    struct prewarm *prewarm;
    int ret = create_plan(rt, options, goal, c, &prewarm, err);
    if (ret < 0)
        return ret;
    const struct session_source session = {options->snapshot, options->snapshot_base,
                                           options->snapshot_fd != 0 ? (int)options->snapshot_fd : -1};
    if (c->plan.has_process || is_session(&session)) {
        ret = prewarm_prepare(&c->arena, is_session(&session) ? &session : NULL, prewarm, err);
        if (ret < 0)
            return ret;
    }
    if (prewarm != NULL && prewarm->decision.reason != NULL)
        status_file_cold(c->status_file, prewarm->decision.kind, prewarm->decision.reason);
    return creation_make(c, options, err);
}

int prewarm_create(const struct runtime_options *rt, const struct create_options *options, struct error *err)
{
    cleanup_creation struct creation c;
    return create_make(rt, options, CREATION_WAITS, &c, err);
}

int prewarm_run(const struct runtime_options *rt, const struct create_options *options, int *exit_code,
                struct error *err)
{
    cleanup_creation struct creation c;
    struct wait_signals signals = WAIT_SIGNALS_NONE;
    *exit_code = 0;
    run_begin(options, &signals);
    int ret = create_make(rt, options, CREATION_RUNS, &c, err);
    if (ret < 0) {
        status_file_error(c.status_file, err);
        wait_restore_signals(&signals);
        return ret;
    }
    return run_finish(&c, options, &signals, exit_code, err);
}

int prewarm_plan(const struct runtime_options *rt, const struct create_options *options, struct json_out *out,
                 struct error *err)
{
    cleanup_creation struct creation c;
    struct prewarm *prewarm;
    int ret = create_plan(rt, options, CREATION_STAYS_A_PLAN, &c, &prewarm, err);
    if (ret == 0 && prewarm != NULL)
        ret = prewarm_look(&c.arena, prewarm, err);
    if (ret == 0)
        plan_describe(&c.plan, out);
    return ret;
}

int prewarm_build(const struct runtime_options *rt, const struct create_options *options, struct error *err)
{
    cleanup_creation struct creation c;
    struct prewarm *prewarm;
    int ret = create_plan(rt, options, CREATION_STAYS_A_PLAN, &c, &prewarm, err);
    if (ret < 0)
        return ret;
    if (prewarm == NULL)
        return error_text(err, -EINVAL, "no snapshot can be made: the program '%s' is not CPython",
                          c.plan.has_process ? c.plan.process.argv[0] : "");
    return prewarm_force(&c.arena, prewarm, err);
}
