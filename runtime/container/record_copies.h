/* The configuration and the filter as they were when the container was created. */
#pragma once

#include "base/arena.h"
#include "spec/spec.h"

struct error;
struct record;
struct seccomp_plan;

/* Parse the copy of config.json in the container's directory, in the arena. Its annotations are those that
 * create honoured: a change of runtime.json concerns new containers only. Return 0 or a negative errno. */
int saved_spec(struct arena *a, int dir, const struct record *record, struct spec **out, struct error *err);

/* Return in *out the compiled filter of the container, for one more process in it. out->filter is NULL if
 * there is none. Return 0 or a negative errno. */
int saved_seccomp(struct arena *a, int dir, const struct record *record, struct seccomp_plan *out,
                  struct error *err);
