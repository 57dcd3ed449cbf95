/* The system call filter: choose it (annotation, cache, compiled) and load it. seccomp(2), runtime-spec
 * linux.seccomp. */
#pragma once

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
    int state_dir;       /* the runtime's state root, where the cache is; -1: no cache */
    const char *version; /* of the runtime: only the version that compiled a program reuses it */
};

/* Parent: find or compile the program, for a container and for `exec` into it alike. libseccomp is loaded
 * only if neither the annotation run.oci.seccomp_bpf_data nor the cache has the program. A cache that cannot
 * be used is no error. Return 0, -EINVAL for a profile that cannot be honoured, -ENOTSUP if libseccomp is
 * missing, or another negative errno. */
int seccomp_plan(struct arena *a, const struct spec *spec, const struct seccomp_context *context,
                 struct seccomp_plan *out, struct error *err);

/* Child: load the filter. Without one, make no call at all. It needs no_new_privs or CAP_SYS_ADMIN in the
 * process' user namespace. With no_new_privs, call it directly before execve(2); without it, before the
 * capabilities are dropped. From here on, the filter also judges the runtime's own calls. With plan->notify,
 * `handover` (from seccomp_handover_new; NULL otherwise) passes the listener to the runtime, and the function
 * returns once the runtime has it: see notify.h. Return 0 or a negative errno. */
int seccomp_install(const struct seccomp_plan *plan, struct seccomp_handover *handover, struct error *err);

/* Write one object: origin, instructions, flags, listener. */
void seccomp_describe(const struct seccomp_plan *plan, struct json_out *out);
