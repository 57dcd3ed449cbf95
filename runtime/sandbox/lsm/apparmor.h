/* AppArmor profile of the process, through the kernel's own files: aa_change_onexec(2), or
 * aa_change_profile(2) for a program that is restored. */
#pragma once

#include <stdbool.h>

#include "sandbox/lsm/attribute.h"

struct arena;
struct error;
struct json_out;

struct apparmor_plan {
    const char *profile;                  /* NULL: none asked for */
    const char *on_exec, *at_once, *test; /* the commands that ask for it */
    /* Child, from apparmor_open on: attr/exec and attr/current, with the commands as their texts. */
    struct attribute exec, current;
};

/* Parent: plan the profile. profile: process.apparmorProfile; NULL or "" means none and costs no system call.
 * Without AppArmor in the kernel, every process is unconfined. So "unconfined" is accepted and any other name
 * is -ENOTSUP. Return 0 or a negative errno. */
int apparmor_plan(struct arena *a, const char *profile, struct apparmor_plan *out, struct error *err);

/* Parent: return the reason why a process of this kernel cannot take the profile without execve(2), or NULL.
 * Only an unconfined process is sure to get at once the profile that execve would give it. The string is
 * static. */
const char *apparmor_obstacle(const struct apparmor_plan *plan);

/* Child, before the change of uid: ask for the profile at the next execve(2). Return 0 or a negative errno.
 */
int apparmor_apply(const struct apparmor_plan *plan, struct error *err);

/* Child, instead of apparmor_apply, if the program may be restored instead of executed: open the files, and
 * test the request for the profile without taking it. The restorer writes `current` last, when no remaining
 * step can be forbidden by the profile. Return 0 or a negative errno. */
int apparmor_open(struct apparmor_plan *plan, struct error *err);

/* Child, after apparmor_open, if the program is executed after all: do the same as apparmor_apply. Do nothing
 * if the files are not open. Return 0 or a negative errno. */
int apparmor_apply_opened(struct apparmor_plan *plan, struct error *err);

/* Write a string or null. */
void apparmor_describe(const struct apparmor_plan *plan, struct json_out *out);

/* Return true if the kernel says that AppArmor is enabled. For `features`. */
bool apparmor_enabled(void);
