/* Creating a container: plan, then act. The steps are separate, so a caller can look at the plan. Between
 * them it can also decide how the program begins (plan.process.launch). */
#pragma once

#include "container/creation.h"
#include "container/options.h"

struct error;

/* Plan a container. Its configuration is that of the bundle, or `source`, which must outlive the creation.
 * Open the state root, and make it if it is missing, unless the goal is CREATION_STAYS_A_PLAN. Release the
 * creation also after a failure. Return 0 or a negative errno. */
int creation_plan(const struct runtime_options *rt, const struct create_options *options,
                  const struct plan_source *source, enum creation_goal goal, struct creation *out,
                  struct error *err);

/* Create the planned container, up to the goal. After a failure nothing of it is left. In either case the
 * caller releases the creation. Return 0 or a negative errno. */
int creation_make(struct creation *creation, const struct create_options *options, struct error *err);

/* Close and free what the creation holds. The container stays. */
void creation_release(struct creation *creation);
#define cleanup_creation __attribute__((cleanup(creation_release)))
