/* Every annotation that the runtime reads, in one table (annotations.c): a new one is a constant here and a
 * row there. An annotation may come from an untrusted image, because Podman before 4.6 and buildah copy those
 * of the image into config.json. So the table says what each can do, and the administrator's runtime.json
 * (spec/policy.h) which of the dangerous ones are honoured; all others are taken out of the configuration
 * before anything is planned. */
#ifndef PYSBX_SPEC_ANNOTATIONS_H
#define PYSBX_SPEC_ANNOTATIONS_H

#include <stdbool.h>

#include "spec/spec.h"

struct arena;
struct json_out;
struct policy;

#define WARM_ANNOTATION_MODE      "run.pysbx.warm"      /* auto, require, off */
#define WARM_ANNOTATION_PRELOAD   "run.pysbx.preload"   /* names of modules, separated by commas or blanks */
#define LANDLOCK_ANNOTATION       "run.pysbx.landlock"  /* "default" or a ruleset */
#define HOOK_ANNOTATION_UNTRUSTED "run.pysbx.untrusted" /* read by the hook require-sandbox, not here */

/* Names that crun gave them; engines and users know them. */
#define ANNOTATION_SYSTEMD_PROPERTY     "org.systemd.property." /* a prefix */
#define ANNOTATION_HOOKS_STDERR         "run.oci.hooks.stderr"
#define ANNOTATION_HOOKS_STDOUT         "run.oci.hooks.stdout"
#define ANNOTATION_KEEP_GROUPS          "run.oci.keep_original_groups"
#define ANNOTATION_MOUNT_CONTEXT        "run.oci.mount_context_type"
#define ANNOTATION_SECCOMP_PROGRAM      "run.oci.seccomp_bpf_data"
#define ANNOTATION_SECCOMP_RECEIVER     "run.oci.seccomp.receiver"
#define ANNOTATION_SECCOMP_FAIL_UNKNOWN "run.oci.seccomp_fail_unknown_syscall"
#define ANNOTATION_SYSTEMD_SUBGROUP     "run.oci.systemd.subgroup"

enum annotation_power {
    ANNOTATION_HARMLESS, /* tightens isolation or changes the speed: always honoured */
    ANNOTATION_GROUPS, /* honoured unless the administrator switches it off: Podman's --group-add keep-groups
                        */
    ANNOTATION_RESTRICTED, /* weakens isolation or reaches the host: honoured if the administrator allows it
                            */
};

struct annotation {
    const char *name; /* a final dot stands for all that begin so */
    enum annotation_power power;
    const char *effect; /* why it is not harmless: "it …"; NULL for one that is */
};

/* Return the rows of the table; *count: how many. */
const struct annotation *annotations_rows(size_t *count);

/* Return the row of an annotation, NULL for one that the runtime does not read. */
const struct annotation *annotation_find(const char *name);

bool annotation_is_prefix(const struct annotation *row);

/* The annotations of a configuration that are not honoured, and why. */
struct annotations_ignored {
    struct str_map pairs;
    const char **reasons; /* one for each pair */
};

/* Divide *annotations: afterwards it holds what is honoured, and *ignored the rest. Neither the pairs nor the
 * array of the caller are changed; what is new lies in the arena. */
void annotations_settle(struct arena *a, const struct policy *policy, bool root_of_host,
                        struct str_map *annotations, struct annotations_ignored *ignored);

/* Return the names of all rows that are not harmless, sorted, for `features`; in the arena. */
const char **annotations_unsafe(struct arena *a, size_t *count);

/* Warn of annotations run.pysbx.* that this release does not know (they are no error, for a newer one may)
 * and of those that are ignored. The latter is one line that needs no --log-level. Call it once a command,
 * and not before what may begin the command anew (base/libraries.h). */
void annotations_warn(struct arena *a, const struct str_map *annotations,
                      const struct annotations_ignored *ignored);

/* The same as "unknownAnnotations" and "ignoredAnnotations" in the object that is being written; nothing when
 * there is none. */
void annotations_describe(const struct str_map *annotations, const struct annotations_ignored *ignored,
                          struct json_out *out);

#endif
