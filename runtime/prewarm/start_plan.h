/* The start of a planned container. */
#pragma once

struct create_options;
struct creation;
struct runtime_options;
struct start;

/* Return the start of the planned container, in its arena. It points into the plan. */
const struct start *start_of_plan(const struct runtime_options *rt, const struct create_options *options,
                                  struct creation *creation);
