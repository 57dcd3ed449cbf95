/* Labels and profiles of a container that is started warm: whether the policy permits to restore its program,
 * and on which parts of labels a snapshot depends. Changes only the label of the agent's file. */
#ifndef PYSBX_PREWARM_LABELS_H
#define PYSBX_PREWARM_LABELS_H

struct arena;
struct error;
struct builder_report;
struct start;

/* Return why the program cannot take its label or profile without execve(2); NULL if it can. */
const char *labels_obstacle(struct arena *a, const struct start *start);

/* Return what confines the imports of a builder, for the key: the type of the label, the loaded policy, the
 * profile, Landlock's rules. Not the categories of the label, which differ between containers. "" for
 * nothing. */
const char *labels_key(struct arena *a, const struct start *start);

/* Return why the label may not have `program`, the file of the snapshot, `file` or a standard stream of the
 * runtime; NULL if it may have all. A program that the policy would not execute is not restored either. */
const char *labels_refusal(struct arena *a, const struct start *start, const char *program, int file);

/* Give the agent's file, which the caller owns, the label of the program without categories, so that a
 * builder can load it. A container without a label needs nothing. 0 or negative errno. */
int labels_agent(struct arena *a, const struct start *start, const char *program, const char *path,
                 struct error *err);

/* A snapshot is for all containers of a type. -EACCES names a file in a volume that the probe reports and
 * that has categories: other containers of the type could not read it. `root`: of the probe. */
int labels_check(struct arena *a, const struct start *start, int root, const struct builder_report *report,
                 struct error *err);

#endif
