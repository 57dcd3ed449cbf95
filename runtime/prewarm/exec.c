/* exec: plan, decide how the program begins, run. */
#include "container/exec.h"

#include <sched.h>

#include "base/error.h"
#include "prewarm/commands.h"
#include "prewarm/decide.h"
#include "prewarm/start.h"
#include "warm/decide.h"

/* Decide how the program begins. The container's own configuration tells what an interpreter would find. */
static int plan_launch(const struct runtime_options *rt, struct execution *x, struct error *err)
{
    struct spec *spec;
    struct prewarm *prewarm;
    if (!warm_is_candidate(x->plan.argv[0]))
        return 0;
    int ret = execution_spec(x, &spec, err);
    if (ret < 0)
        return ret;
    struct start *start = ARENA_NEW(&x->arena, struct start);
    *start = (struct start){.rt = rt,
                            .id = x->record.id,
                            .bundle = x->record.bundle,
                            .rootfs = x->record.rootfs,
                            .spec = spec,
                            .process = &x->plan,
                            .own_mounts = (x->record.namespaces & CLONE_NEWNS) != 0,
                            .exec = true,
                            .traceable = x->late};
    ret = prewarm_decide(&x->arena, start, &prewarm, err);
    return ret < 0 ? ret : prewarm_prepare(&x->arena, NULL, prewarm, err);
}

int prewarm_exec(const struct runtime_options *rt, const struct exec_options *options, int *exit_code,
                 struct error *err)
{
    cleanup_execution struct execution x;
    *exit_code = 0;
    int ret = execution_plan(rt, options, &x, err);
    if (ret < 0)
        return ret;
    ret = plan_launch(rt, &x, err);
    return ret < 0 ? ret : execution_run(&x, exit_code, err);
}
