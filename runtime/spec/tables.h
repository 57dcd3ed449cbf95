/* The tables of config.json (runtime-spec 1.3: config.md, config-linux.md) and the words that they allow. */
#pragma once

#include "spec/schema.h"

extern const struct schema spec_schema;      /* struct spec */
extern const struct schema process_schema;   /* struct spec_process */
extern const struct schema resources_schema; /* struct spec_resources */
extern const struct schema seccomp_schema;   /* struct spec_seccomp */

/* NULL-terminated. `features` prints the same lists that the tables accept. */
extern const char *const spec_namespace_types[];
extern const char *const spec_hook_kinds[];
extern const char *const spec_memory_policy_modes[];
extern const char *const spec_memory_policy_flags[];
