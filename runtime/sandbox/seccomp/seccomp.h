/* The system call filter: which one (annotation, cache, compiled), and loading it. seccomp(2), runtime-spec
 * linux.seccomp. */
#ifndef PYSBX_SANDBOX_SECCOMP_SECCOMP_H
#define PYSBX_SANDBOX_SECCOMP_SECCOMP_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

#include "sandbox/seccomp/plan.h"

struct arena;
struct error;
struct json_out;
struct seccomp_handover;
struct spec;

struct seccomp_context {
    int state_dir;       /* the runtime's state root, where the cache lives; -1: no cache */
    const char *version; /* the runtime's: a program is reused by the version that compiled it only */
};

/* Parent: find or make the program, for a container and for `exec` into it alike. libseccomp is
 * loaded only when neither the annotation run.oci.seccomp_bpf_data nor the cache has the program. A
 * profile that cannot be honoured is -EINVAL; a libseccomp that is missing is -ENOTSUP. A cache
 * that cannot be used is no error. */
int seccomp_plan(struct arena *a, const struct spec *spec, const struct seccomp_context *context,
                 struct seccomp_plan *out, struct error *err);

/* Child: load the filter; no call at all without one. Needs no_new_privs or CAP_SYS_ADMIN in the process'
 * user namespace: with no_new_privs it belongs directly before execve(2), without it before the capabilities
 * are dropped. From here on the filter judges the runtime's own calls too.
 * With plan->notify, `handover` (from seccomp_handover_new; NULL otherwise) carries the listener to the
 * runtime, and the call returns when it has been taken: see seccomp_notify.h. */
int seccomp_install(const struct seccomp_plan *plan, struct seccomp_handover *handover, struct error *err);

/* One object: origin, instructions, flags, listener. */
void seccomp_describe(const struct seccomp_plan *plan, struct json_out *out);

#endif
