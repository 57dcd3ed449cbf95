/* Whether a snapshot fits a start, as far as that can be seen before the container exists. */
#pragma once

struct arena;
struct manifest;
struct start;
struct warm_plan;

/* Compare environment, files and program with the manifest, as the child will in the container. Return the
 * first difference, in the arena, or NULL. Things that only the child can see are not compared. These are
 * files of /proc and /sys that the imports read, directories that they could write to, and the standard
 * streams. */
const char *fit_reason(struct arena *a, const struct start *start, const struct warm_plan *decision,
                       const struct manifest *manifest);
