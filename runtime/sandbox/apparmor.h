/* AppArmor profile of the process: aa_change_onexec(2) through the kernel's own file. */
#ifndef PYSBX_SANDBOX_APPARMOR_H
#define PYSBX_SANDBOX_APPARMOR_H

#include <stdbool.h>

struct error;
struct json_out;

struct apparmor_plan {
    const char *profile; /* NULL: none asked for */
};

/* Parent: profile is process.apparmorProfile (NULL or "": none; no system call). Without AppArmor in the
 * kernel "unconfined" is what a process is anyway, any other name is -ENOTSUP. */
int apparmor_plan(const char *profile, struct apparmor_plan *out, struct error *err);

/* Child, before the change of uid: the profile that execve(2) gives. */
int apparmor_apply(const struct apparmor_plan *plan, struct error *err);

/* A string, or null. */
void apparmor_describe(const struct apparmor_plan *plan, struct json_out *out);

/* True when the kernel says so: for `features`. */
bool apparmor_enabled(void);

#endif
