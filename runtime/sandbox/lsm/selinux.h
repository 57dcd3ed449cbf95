/* SELinux labels of the process and of its session keyring; config.md "selinuxLabel", selinux(8). */
#pragma once

#include <stdbool.h>

#include "sandbox/lsm/attribute.h"

struct error;
struct json_out;

struct selinux_plan {
    const char *label; /* NULL: none */
    /* Child, from selinux_open on: attr/exec and attr/current, with the label as their text. */
    struct attribute exec, current;
};

/* Parent: check the label. label: process.selinuxLabel in the kernel's own form, as engines give it; NULL or
 * "" means none and costs no system call. Return 0 or a negative errno.
 * -ENOTSUP: SELinux is not enabled on this machine, or libselinux is missing. A process is not started
 * without the confinement that was asked for. -EINVAL: the loaded policy does not know the label. The text
 * holds `/proc/self/attr/exec`, by which engines classify it. */
int selinux_plan(const char *label, struct selinux_plan *out, struct error *err);

/* Child, before and after keyring_join: set and clear the label of new keys, so that a new keyring has it.
 * Return 0 or a negative errno. */
int selinux_apply_keycreate(const struct selinux_plan *plan, struct error *err);
int selinux_clear_keycreate(const struct selinux_plan *plan, struct error *err);

/* Child, before the change of uid: ask for the label at the next execve(2). Return 0 or a negative errno. */
int selinux_apply_exec(const struct selinux_plan *plan, struct error *err);

/* Child, instead of selinux_apply_exec, if the program may be restored instead of executed: only open the
 * files. The restorer writes `current` last, when no remaining step can be forbidden by the label. Return 0
 * or a negative errno. */
int selinux_open(struct selinux_plan *plan, struct error *err);

/* Child, after selinux_open, if the program is executed after all: do the same as selinux_apply_exec. Do
 * nothing if the files are not open. Return 0 or a negative errno. */
int selinux_apply_opened(struct selinux_plan *plan, struct error *err);

/* Write a string or null. */
void selinux_describe(const struct selinux_plan *plan, struct json_out *out);

/* True if selinuxfs is mounted at its usual place. This loads no library. For `features` and mount labels. */
bool selinux_enabled(void);
