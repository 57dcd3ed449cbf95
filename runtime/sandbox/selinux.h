/* SELinux labels of the process and of its session keyring, through the kernel's own files (attr/exec,
 * attr/keycreate, selinuxfs context): libselinux adds nothing that is needed here. */
#ifndef PYSBX_SANDBOX_SELINUX_H
#define PYSBX_SANDBOX_SELINUX_H

#include <stdbool.h>

struct error;
struct json_out;

struct selinux_plan {
    const char *label; /* NULL: none asked for */
};

/* Parent: label is process.selinuxLabel (NULL or "": none; no system call). -ENOTSUP when SELinux is not
 * enabled on this machine: a process is not started without a confinement it was to have. -EINVAL when the
 * loaded policy does not know the label; the text holds `/proc/self/attr/exec`, by which engines classify
 * it. */
int selinux_plan(const char *label, struct selinux_plan *out, struct error *err);

/* Child, before keyring_join: keys made from here to execve(2) carry the label. */
int selinux_apply_keycreate(const struct selinux_plan *plan, struct error *err);

/* Child, before the change of uid: the label that execve(2) gives. */
int selinux_apply_exec(const struct selinux_plan *plan, struct error *err);

/* A string, or null. */
void selinux_describe(const struct selinux_plan *plan, struct json_out *out);

/* True when selinuxfs is mounted at its place: for `features` and mount labels. */
bool selinux_enabled(void);

#endif
