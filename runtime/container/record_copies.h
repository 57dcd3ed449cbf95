/* The configuration as it was when the container was created. */
#ifndef PYSBX_CONTAINER_RECORD_COPIES_H
#define PYSBX_CONTAINER_RECORD_COPIES_H

#include "base/arena.h"
#include "spec/spec.h"

struct error;
struct record;
struct seccomp_plan;

/* Parse the copy of config.json in the container's directory; everything in the arena. Its annotations are
 * those that create honoured: a change of runtime.json concerns new containers only. */
int saved_spec(struct arena *a, int dir, const struct record *record, struct spec **out, struct error *err);

/* The compiled filter of the container, for one more process in it; without one, out->filter is NULL. */
int saved_seccomp(struct arena *a, int dir, const struct record *record, struct seccomp_plan *out,
                  struct error *err);

#endif
