/* AppArmor profile of the process: aa_change_onexec(2), or aa_change_profile(2) for a program that is
 * restored, through the kernel's own files. */
#ifndef PYSBX_SANDBOX_LSM_APPARMOR_H
#define PYSBX_SANDBOX_LSM_APPARMOR_H

#include <stdbool.h>

#include "sandbox/lsm/attribute.h"

struct arena;
struct error;
struct json_out;

struct apparmor_plan {
    const char *profile;                  /* NULL: none asked for */
    const char *on_exec, *at_once, *test; /* the commands for it */
    /* Child, from apparmor_open on: attr/exec and attr/current, with the commands as their texts. */
    struct attribute exec, current;
};

/* Parent: profile is process.apparmorProfile (NULL or "": none; no system call). Without AppArmor in the
 * kernel "unconfined" is what a process is anyway, any other name is -ENOTSUP. */
int apparmor_plan(struct arena *a, const char *profile, struct apparmor_plan *out, struct error *err);

/* Parent: why a process of this kernel cannot take the profile without execve(2), or NULL. Only an unconfined
 * one is sure to get at once what it would get at execve. */
const char *apparmor_obstacle(const struct apparmor_plan *plan);

/* Child, before the change of uid: the profile that execve(2) gives. */
int apparmor_apply(const struct apparmor_plan *plan, struct error *err);

/* Child, in place of that, when the program may be restored instead of executed: opens the files, and asks
 * for the profile without taking it. Whoever restores the program writes `current` when nothing is left to do
 * that the profile may forbid. */
int apparmor_open(struct apparmor_plan *plan, struct error *err);

/* Child, after apparmor_open, when the program is executed after all: as apparmor_apply. Otherwise nothing to
 * do. */
int apparmor_apply_opened(struct apparmor_plan *plan, struct error *err);

/* A string, or null. */
void apparmor_describe(const struct apparmor_plan *plan, struct json_out *out);

/* True when the kernel says so: for `features`. */
bool apparmor_enabled(void);

#endif
