/* Whether a snapshot fits a start, as far as that can be seen before the container exists. */
#pragma once

struct arena;
struct manifest;
struct process_plan;
struct root_view;
struct start;
struct warm_plan;

/* Compare environment, files and program with the manifest, as the child will in the container. Return the
 * first difference, in the arena, or NULL. Things that only the child can see are not compared. These are
 * files of /proc and /sys that the imports read, directories that they could write to, and the standard
 * streams. */
const char *fit_reason(struct arena *a, const struct start *start, const struct warm_plan *decision,
                       const struct manifest *manifest);

/* Return the environment of the program with HOME, which the child takes from the container's /etc/passwd. */
char *const *fit_environment(struct arena *a, const struct process_plan *process,
                             const struct root_view *view);
