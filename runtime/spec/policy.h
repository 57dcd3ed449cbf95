/* The administrator's decision about annotations, in runtime.json: see pysbx-runtime(8) and
 * config/runtime.json, which contains the defaults. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "spec/spec.h"

struct arena;
struct error;

struct policy {
    struct str_list allow; /* annotations to honour although they reach beyond the container */
    bool landlock_log;     /* honour "log" of run.pysbx.landlock, which fills the host's audit log */
    bool keep_groups;      /* honour run.oci.keep_original_groups */
};

/* Decode the text. 0 or -EINVAL with the JSON path in err. */
int policy_parse(struct arena *a, const char *text, size_t size, struct policy *out, struct error *err);

/* Read the caller's file (spec/settings.h), or return the defaults if it does not exist. path NULL: the usual
 * place. 0 or negative errno; err names the file and the place in it. */
int policy_read(struct arena *a, const char *path, bool root_of_host, struct policy *out, struct error *err);

/* Return the path of the file that applies to the caller, in the arena, or NULL if HOME is not set. */
const char *policy_path(struct arena *a, bool root_of_host);

/* Return whether allowAnnotations names the annotation. */
bool policy_allows(const struct policy *policy, const char *annotation);
