/* What the loaded SELinux policy allows, asked without an entry in the audit log: selinuxfs "access", as
 * security_compute_av_raw(3) does it. Decides nothing by itself; the kernel asks its policy again. */
#ifndef PYSBX_SANDBOX_LSM_SELINUX_ACCESS_H
#define PYSBX_SANDBOX_LSM_SELINUX_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

struct arena;

/* May `source` do all of this to `target`? permissions: names of the class, separated by blanks. Labels in
 * the kernel's own form. True as well where nothing is enforced; false when the kernel cannot be asked. */
bool selinux_allows(const char *source, const char *target, const char *class, const char *permissions);

/* The label of this process, or of the file that is open for reading; NULL when there is none. */
const char *selinux_own_label(struct arena *a);
const char *selinux_file_label(struct arena *a, int fd);

/* Of "user:role:type:level" the part before the level, and the same with the level's sensitivity but without
 * its categories. NULL for what has no such parts. */
const char *selinux_label_type(struct arena *a, const char *label);
const char *selinux_label_plain(struct arena *a, const char *label);

/* The label has categories: it is for one container, or some. */
bool selinux_label_has_categories(const char *label);

/* Which policy is loaded, and whether it is enforced, in words that change whenever that does. */
const char *selinux_state(struct arena *a);

/* Parent: why a process of this runtime cannot take the label without execve(2), with the same result as if
 * it had executed a program, or NULL. */
const char *selinux_obstacle(struct arena *a, const char *label);

/* May the label use the standard streams of this process? */
bool selinux_allows_streams(struct arena *a, const char *label);

#endif
