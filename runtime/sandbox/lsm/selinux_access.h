/* Ask what the loaded SELinux policy allows without an entry in the audit log: selinuxfs "access", as
 * security_compute_av_raw(3) does. The answers are advice: the kernel applies its policy again when the
 * process acts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct arena;

/* True if `source` may do all of this to `target`, or if nothing is enforced; false if the kernel cannot be
 * asked. permissions: names in the class, separated by spaces. Labels are in the kernel's own form. */
bool selinux_allows(const char *source, const char *target, const char *class, const char *permissions);

/* Return the label of this process, or of a file that is open for reading, in the arena. NULL if there is
 * none. */
const char *selinux_own_label(struct arena *a);
const char *selinux_file_label(struct arena *a, int fd);

/* Return a part of "user:role:type:level". selinux_label_type: the part before the level.
 * selinux_label_plain: the same with the level's sensitivity, but without its categories. The string is in
 * the arena. NULL if the label has no such parts. */
const char *selinux_label_type(struct arena *a, const char *label);
const char *selinux_label_plain(struct arena *a, const char *label);

/* True if the label has categories, so that it belongs to one container or a few. */
bool selinux_label_has_categories(const char *label);

/* Describe the loaded policy and whether it is enforced, in a string that changes if either changes. */
const char *selinux_state(struct arena *a);

/* Parent: return the reason why a process of this runtime cannot take the label without execve(2) with the
 * same result as execve gives, or NULL. */
const char *selinux_obstacle(struct arena *a, const char *label);

/* True if the label may use the standard streams of this process. */
bool selinux_allows_streams(struct arena *a, const char *label);
