/* Compiled seccomp programs on disk, <state root>/.cache/seccomp: one file a profile, believed only when it
 * is ours and holds exactly the key that is asked for. */
#ifndef PYSBX_SANDBOX_SECCOMP_CACHE_H
#define PYSBX_SANDBOX_SECCOMP_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "spec/spec.h"

struct seccomp_plan;
struct seccomp_program;

/* Everything the program depends on. The kernel's release and architecture are added. */
struct seccomp_cache_key {
    const char *version;      /* of the runtime */
    bool fail_unknown;        /* annotation run.oci.seccomp_fail_unknown_syscall */
    struct json_text profile; /* linux.seccomp as it was written */
};

/* True when the program was found; then filter, count, flags, notify and the listener's strings in *out are
 * set, all in the arena. Costs a handful of system calls and never loads a library. */
bool seccomp_cache_lookup(struct arena *a, int state_dir, const struct seccomp_cache_key *key,
                          struct seccomp_plan *out);

/* Keep what was compiled with `library` for the next run. The oldest entries above 64 are removed. Failures
 * are not errors: the next run compiles again. */
void seccomp_cache_store(struct arena *a, int state_dir, const struct seccomp_cache_key *key,
                         const struct seccomp_plan *plan, const char *library);

#endif
