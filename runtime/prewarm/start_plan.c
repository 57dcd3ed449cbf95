/* Converting a plan into a start. */
#include "prewarm/start_plan.h"

#include <sched.h>

#include "container/creation.h"
#include "prewarm/start.h"

const struct start *start_of_plan(const struct runtime_options *rt, const struct create_options *options,
                                  struct creation *c)
{
    struct plan *plan = &c->plan;
    struct start *start = ARENA_NEW(&c->arena, struct start);
    *start = (struct start){.rt = rt,
                            .id = plan->id,
                            .bundle = plan->bundle,
                            .rootfs = plan->rootfs,
                            .spec = plan->spec,
                            .process = &plan->process,
                            .own_mounts = (plan->namespaces.make & CLONE_NEWNS) != 0,
                            .no_pivot = options->no_pivot,
                            .waits = options->compare_fd != 0,
                            .traceable = plan->traceable,
                            .config = plan->config,
                            .config_size = plan->config_size};
    return start;
}
