/* The facts of a start that warm/decide.h asks for. */
#pragma once

#include <stdbool.h>

struct arena;
struct error;
struct start;
struct store_bounds;
struct warm_plan;

/* Collect the facts and decide. Return 0 or a negative errno: see warm_decide. */
int facts_decide(struct arena *a, const struct start *start, bool root_of_host, struct warm_plan *out,
                 struct error *err);

/* Collect the limits that are not part of the key. */
void facts_bounds(const struct start *start, struct store_bounds *out);
