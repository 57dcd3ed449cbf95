/* Labels and profiles of a container that is started warm: whether the policy lets its program be restored,
 * and what of labels a snapshot depends on. Asks; changes nothing but the label of the agent's file. */
#ifndef PYSBX_CONTAINER_WARM_LABEL_H
#define PYSBX_CONTAINER_WARM_LABEL_H

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct error;
struct plan;
struct template_report;
struct warm_start;

/* Why the container's program cannot take its label or profile without being executed; NULL when it can. */
const char *warm_label_obstacle(struct arena *a, const struct plan *plan);

/* What confines the imports of a template, for the key: the type of the label, not its categories, which
 * differ from container to container; the loaded policy; the profile; Landlock's rules. "" for nothing. */
const char *warm_label_key(struct arena *a, const struct plan *plan);

/* The snapshot `image` is there: why the container may not have it, its program or one of the runtime's
 * standard streams; NULL when it may have all. A program that could not be executed is not restored either.
 */
const char *warm_label_refusal(struct arena *a, const struct plan *plan, const char *program, int image);

/* Give the agent's file (of the caller's own) the label that the program has, but for categories, so that a
 * template can load it. Nothing to do for a container without a label. 0 or negative errno. */
int warm_label_agent(struct arena *a, const struct plan *plan, const char *program, const char *path,
                     struct error *err);

/* A snapshot is for all containers of a type. -EACCES names a file in a volume that the template reports and
 * that has categories: others of the type could not read it. `root` is the template's. */
int warm_label_check(struct arena *a, const struct plan *plan, int root, const struct template_report *report,
                     struct error *err);

#endif
