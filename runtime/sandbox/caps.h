/* Capability sets of the container's process: capabilities(7), capset(2), runtime-spec
 * process.capabilities. */
#pragma once

#include <linux/capability.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct error;
struct json_out;
struct spec_process;

/* Bit n is capability n. The struct owns nothing. */
struct caps_plan {
    uint64_t bounding, effective, inheritable, permitted, ambient;
};

/* Translate names to sets. Without a capabilities object, or without a process object (NULL), every set is
 * empty, as with runc and crun. user_namespace: the process enters a user namespace, new or joined, where it
 * holds every capability.
 *
 * A capability that is unknown or cannot be granted is left out with a warning (log_notice), as the
 * specification demands. It cannot be granted if the runtime does not hold it, or if it breaks a rule:
 * effective within permitted, inheritable within bounding, ambient within permitted and inheritable. Return 0
 * or a negative errno. */
int caps_plan(const struct spec_process *process, bool user_namespace, struct caps_plan *out,
              struct error *err);

/* Child, first half: shrink the bounding set. Needs CAP_SETPCAP, so call it before credentials_apply. Return
 * 0 or a negative errno. */
int caps_apply_before_uid(const struct caps_plan *plan, struct error *err);

/* Child, second half, after credentials_apply: set effective, permitted and inheritable in one capset(2),
 * then the ambient set. No later step may need a capability outside the plan. Return 0 or a negative errno.
 */
int caps_apply_after_uid(const struct caps_plan *plan, struct error *err);

/* Compute the sets that a process has after execve(2) of a program without file capabilities, in the form of
 * capset(2). They serve a process that becomes another program without execve. root: the user id is 0.
 * capabilities(7), "Transformation of capabilities during execve()". Return 0, or -EPERM if execve would give
 * the process more than it has: only execve can do that. */
int caps_after_exec(const struct caps_plan *plan, bool root, bool no_new_privs,
                    struct __user_cap_data_struct out[static 2]);

/* Write one object with the five sets as lists of names. */
void caps_describe(const struct caps_plan *plan, struct json_out *out);

/* Return the number of a capability ("CAP_CHOWN", in any case, with or without "CAP_"), or -1. */
int caps_from_name(const char *name);

/* Return the names of all capabilities that the kernel has, by number, in the arena. For `features`. */
const char *const *caps_names(struct arena *a, size_t *count);
