/* Compiled seccomp programs on disk in <state root>/.cache/seccomp, one file for each profile. A file is used
 * only if this user owns it and it holds exactly the requested key. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "spec/spec.h"

struct seccomp_plan;
struct seccomp_program;

/* All facts on which the program depends. The kernel's release and architecture are added. */
struct seccomp_cache_key {
    const char *version;      /* of the runtime */
    bool fail_unknown;        /* annotation run.oci.seccomp_fail_unknown_syscall */
    struct json_text profile; /* linux.seccomp as config.json has it */
};

/* Look up the program. If it was found, return true and set filter, count, flags, notify and the listener's
 * strings in *out, all in the arena. This costs a few system calls and never loads a library. */
bool seccomp_cache_lookup(struct arena *a, int state_dir, const struct seccomp_cache_key *key,
                          struct seccomp_plan *out);

/* Keep the program that `library` compiled for the next run. The oldest entries above 64 are removed. A
 * failure is no error, because the next run compiles again. */
void seccomp_cache_store(struct arena *a, int state_dir, const struct seccomp_cache_key *key,
                         const struct seccomp_plan *plan, const char *library);
