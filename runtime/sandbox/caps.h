/* Capability sets of the container's process: capabilities(7), capset(2), runtime-spec
 * process.capabilities. */
#ifndef PYSBX_SANDBOX_CAPS_H
#define PYSBX_SANDBOX_CAPS_H

#include <linux/capability.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct error;
struct json_out;
struct spec_process;

/* Bit n is capability n. Plain data: needs no release. */
struct caps_plan {
    uint64_t bounding, effective, inheritable, permitted, ambient;
};

/* Names to sets. Without a capabilities object every set is empty, as with runc and crun: a process that was
 * given nothing has nothing. An unknown name is -EINVAL and names its JSON path. What cannot be granted (not
 * held by the runtime, effective outside permitted, inheritable outside bounding, ambient outside permitted
 * and inheritable) is left out with a warning, as the specification asks.
 * user_namespace: the process enters a user namespace, new or joined, where it will hold everything.
 * An absent process object (NULL) gives empty sets. */
int caps_plan(const struct spec_process *process, bool user_namespace, struct caps_plan *out,
              struct error *err);

/* Child, first half: shrink the bounding set. Needs CAP_SETPCAP, thus comes before credentials_apply. */
int caps_apply_before_uid(const struct caps_plan *plan, struct error *err);

/* Child, second half, after credentials_apply: effective, permitted and inheritable in one capset(2), then
 * the ambient set. Nothing that needs a capability outside the plan may follow. */
int caps_apply_after_uid(const struct caps_plan *plan, struct error *err);

/* What execve(2) of a program without file capabilities makes of the sets (capabilities(7), "Transformation
 * of capabilities during execve()"), as capset(2) takes it: for a process that becomes another program
 * without execve. root: user id 0. -EPERM when execve would give it more than it has, which nothing else can.
 */
int caps_after_exec(const struct caps_plan *plan, bool root, bool no_new_privs,
                    struct __user_cap_data_struct out[static 2]);

/* One object with the five sets as lists of names. */
void caps_describe(const struct caps_plan *plan, struct json_out *out);

/* Number of a capability ("CAP_CHOWN", in any case, with or without "CAP_"), or -1. */
int caps_from_name(const char *name);

/* The names of all capabilities the kernel has, in the order of their numbers, in the
 * arena: for `features`. */
const char *const *caps_names(struct arena *a, size_t *count);

#endif
