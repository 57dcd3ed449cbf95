/* Labels and profiles of a container that starts warm: whether the policy permits to restore its program, and
 * on which parts of labels a snapshot depends. Only the label of the agent's file is changed. */
#pragma once

struct arena;
struct error;
struct builder_report;
struct start;

/* Return why the program cannot take its label or profile without execve(2), or NULL if it can. */
const char *labels_obstacle(struct arena *a, const struct start *start);

/* Return, for the key, what confines the imports of a builder: the type of the label, the loaded policy, the
 * profile, and Landlock's rules. The categories of the label are left out, because they differ between
 * containers. "" if nothing confines them. */
const char *labels_key(struct arena *a, const struct start *start);

/* Return why the policy denies the label access to `program`, to the snapshot's file `file` or to a standard
 * stream of the runtime. NULL if it allows all. A program that the policy would not execute is not restored
 * either. */
const char *labels_refusal(struct arena *a, const struct start *start, const char *program, int file);

/* Give the agent's file, which the caller owns, the label of the program without categories, so that a
 * builder can load it. A container without a label needs nothing. Return 0 or a negative errno. */
int labels_agent(struct arena *a, const struct start *start, const char *program, const char *path,
                 struct error *err);

/* Check the files that the probe reports. A snapshot is for all containers of a type. If a file in a volume
 * has categories, other containers of the type could not read it: the error names it. `root`: of the probe.
 * Return 0 or -EACCES. */
int labels_check(struct arena *a, const struct start *start, int root, const struct builder_report *report,
                 struct error *err);
