/* Every annotation that the runtime reads, in one table. A new one is a constant and a row. An annotation may
 * come from an untrusted image, because Podman before 4.6 and buildah copy an image's annotations into
 * config.json. So the table says what each can do, and the administrator's runtime.json (spec/policy.h)
 * decides which of the dangerous ones are honoured. All others are removed from the configuration before
 * anything is planned. */
#pragma once

#include <stdbool.h>

#include "spec/spec.h"

struct arena;
struct json_out;
struct policy;

#define WARM_ANNOTATION_MODE "run.pysbx.warm" /* auto, require, off */
/* Names of modules, and directories where these are looked for first, separated by commas or blanks. */
#define WARM_ANNOTATION_PRELOAD   "run.pysbx.preload"
#define LANDLOCK_ANNOTATION       "run.pysbx.landlock"  /* "default" or a ruleset */
#define HOOK_ANNOTATION_UNTRUSTED "run.pysbx.untrusted" /* read by the hook require-sandbox, not here */

/* These names come from crun, and engines and users know them. */
#define ANNOTATION_SYSTEMD_PROPERTY     "org.systemd.property." /* a prefix */
#define ANNOTATION_HOOKS_STDERR         "run.oci.hooks.stderr"
#define ANNOTATION_HOOKS_STDOUT         "run.oci.hooks.stdout"
#define ANNOTATION_KEEP_GROUPS          "run.oci.keep_original_groups"
#define ANNOTATION_MOUNT_CONTEXT        "run.oci.mount_context_type"
#define ANNOTATION_SECCOMP_PROGRAM      "run.oci.seccomp_bpf_data"
#define ANNOTATION_SECCOMP_RECEIVER     "run.oci.seccomp.receiver"
#define ANNOTATION_SECCOMP_FAIL_UNKNOWN "run.oci.seccomp_fail_unknown_syscall"
#define ANNOTATION_SYSTEMD_SUBGROUP     "run.oci.systemd.subgroup"

/* The table: name, power, and why it is not harmless. It is sorted by name, except that exceptions from a
 * prefix come before it. contrib/docs/pages/reference/annotations.md lists them too. */
#define ANNOTATIONS(ROW)                                                                                     \
    /* Podman itself sets these two for --stop-signal and --stop-timeout: how systemd stops the scope. */    \
    ROW(ANNOTATION_SYSTEMD_PROPERTY "KillSignal", HARMLESS, NULL)                                            \
    ROW(ANNOTATION_SYSTEMD_PROPERTY "TimeoutStopUSec", HARMLESS, NULL)                                       \
    ROW(ANNOTATION_SYSTEMD_PROPERTY, RESTRICTED, "it sets a property of the container's systemd scope")      \
    ROW(ANNOTATION_HOOKS_STDERR, RESTRICTED, "it makes the runtime write to a file of the host")             \
    ROW(ANNOTATION_HOOKS_STDOUT, RESTRICTED, "it makes the runtime write to a file of the host")             \
    ROW(ANNOTATION_KEEP_GROUPS, GROUPS, "it keeps the supplementary groups of the caller")                   \
    ROW(ANNOTATION_MOUNT_CONTEXT, RESTRICTED, "it changes what SELinux' label of the mounts applies to")     \
    ROW(ANNOTATION_SECCOMP_RECEIVER, RESTRICTED, "it lets a socket of the host decide on system calls")      \
    ROW(ANNOTATION_SECCOMP_PROGRAM, RESTRICTED, "it replaces the engine's seccomp filter")                   \
    /* It makes the runtime refuse a profile with a system call that libseccomp does not know. */            \
    ROW(ANNOTATION_SECCOMP_FAIL_UNKNOWN, HARMLESS, NULL)                                                     \
    ROW(ANNOTATION_SYSTEMD_SUBGROUP, RESTRICTED, "it names a cgroup of the host")                            \
    /* Rules only remove rights, and denials are not logged unless runtime.json allows it. */                \
    ROW(LANDLOCK_ANNOTATION, HARMLESS, NULL)                                                                 \
    /* Modules are imported in a container like the requested one. */                                        \
    ROW(WARM_ANNOTATION_PRELOAD, HARMLESS, NULL)                                                             \
    ROW(HOOK_ANNOTATION_UNTRUSTED, HARMLESS, NULL)                                                           \
    /* It cannot enable what warm.json disables. */                                                          \
    ROW(WARM_ANNOTATION_MODE, HARMLESS, NULL)

enum annotation_power {
    ANNOTATION_HARMLESS,   /* tightens isolation or changes the speed: always honoured */
    ANNOTATION_GROUPS,     /* honoured unless disabled in runtime.json: Podman's --group-add keep-groups */
    ANNOTATION_RESTRICTED, /* weakens isolation or reaches the host: honoured if allowed in runtime.json */
};

struct annotation {
    const char *name; /* a prefix if it ends with a dot */
    enum annotation_power power;
    const char *effect; /* why it is not harmless: "it …"; NULL if it is */
};

/* Return the rows of the table. *count is their number. */
const struct annotation *annotations_rows(size_t *count);

/* Return the row of an annotation, or NULL if the runtime does not read it. */
const struct annotation *annotation_find(const char *name);

/* Return whether the row applies to all annotations that begin with its name. */
bool annotation_is_prefix(const struct annotation *row);

/* Return whether the name begins with run.pysbx., and this release does not know it. */
bool annotation_is_unknown(const char *name);

/* The annotations of a configuration that are ignored, and the reasons. */
struct annotations_ignored {
    struct str_map pairs;
    const char **reasons; /* one for each pair */
};

/* Divide *annotations: afterwards it contains those to honour, and *ignored the others. The pairs and the
 * caller's array do not change. New arrays are in the arena. */
void annotations_settle(struct arena *a, const struct policy *policy, bool root_of_host,
                        struct str_map *annotations, struct annotations_ignored *ignored);

/* Return the names of all rows that are not harmless, sorted, in the arena. For `features`. */
const char **annotations_unsafe(struct arena *a, size_t *count);

/* Warn about annotations run.pysbx.* that this release does not know, and about ignored ones. Unknown ones
 * are no error, because a newer release may know them. A name that may be misspelt, and the ignored ones,
 * need no --log-level. Call this once in a command, and not before the command can begin anew
 * (base/libraries.h). */
void annotations_warn(struct arena *a, const struct str_map *annotations,
                      const struct annotations_ignored *ignored);

/* Warn about unknown ones only. `start` repeats it, because Podman connects a terminal after create. */
void annotations_warn_unknown(const struct str_map *annotations);

/* Write the same facts as "unknownAnnotations" and "ignoredAnnotations" into the open object, or nothing if
 * there are none. */
void annotations_describe(const struct str_map *annotations, const struct annotations_ignored *ignored,
                          struct json_out *out);
