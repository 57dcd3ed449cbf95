/* SELinux labels of the process and of its session keyring; config.md "selinuxLabel", selinux(8). */
#ifndef PYSBX_SANDBOX_LSM_SELINUX_H
#define PYSBX_SANDBOX_LSM_SELINUX_H

#include <stdbool.h>

#include "sandbox/lsm/attribute.h"

struct error;
struct json_out;

struct selinux_plan {
    const char *label; /* NULL: none asked for */
    /* Child, from selinux_open on: attr/exec and attr/current, with the label as their text. */
    struct attribute exec, current;
};

/* Parent: label is process.selinuxLabel (NULL or "": none; no system call), in the kernel's own form, as
 * engines give it. -ENOTSUP when SELinux is not enabled on this machine, or libselinux is missing: a process
 * is not started without a confinement it was to have. -EINVAL when the loaded policy does not know the
 * label; the text holds `/proc/self/attr/exec`, by which engines classify it. */
int selinux_plan(const char *label, struct selinux_plan *out, struct error *err);

/* Child, before and after keyring_join: keys made in between carry the label. */
int selinux_apply_keycreate(const struct selinux_plan *plan, struct error *err);
int selinux_clear_keycreate(const struct selinux_plan *plan, struct error *err);

/* Child, before the change of uid: the label that execve(2) gives. */
int selinux_apply_exec(const struct selinux_plan *plan, struct error *err);

/* Child, in place of that, when the program may be restored instead of executed: only opens the files.
 * Whoever restores it writes `current` when nothing is left to do that the label may forbid. */
int selinux_open(struct selinux_plan *plan, struct error *err);

/* Child, after selinux_open, when the program is executed after all: as selinux_apply_exec. Otherwise nothing
 * to do. */
int selinux_apply_opened(struct selinux_plan *plan, struct error *err);

/* A string, or null. */
void selinux_describe(const struct selinux_plan *plan, struct json_out *out);

/* True when selinuxfs is mounted at its place; opens no library. For `features` and mount labels. */
bool selinux_enabled(void);

#endif
