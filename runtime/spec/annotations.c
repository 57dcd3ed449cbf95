/* The table of annotations. */
#include "spec/annotations.h"

#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "base/str.h"

/* Sorted by name, except that exceptions from a prefix come before it.
 * contrib/docs/pages/reference/annotations.md lists them too. hooks/require-sandbox refuses those that are
 * honoured and not harmless. */
static const struct annotation table[] = {
    /* Podman itself sets these two for --stop-signal and --stop-timeout. They decide how systemd stops the
     * scope. */
    {ANNOTATION_SYSTEMD_PROPERTY "KillSignal", ANNOTATION_HARMLESS, NULL},
    {ANNOTATION_SYSTEMD_PROPERTY "TimeoutStopUSec", ANNOTATION_HARMLESS, NULL},
    {ANNOTATION_SYSTEMD_PROPERTY, ANNOTATION_RESTRICTED,
     "it sets a property of the container's systemd scope"},
    {ANNOTATION_HOOKS_STDERR, ANNOTATION_RESTRICTED, "it makes the runtime write to a file of the host"},
    {ANNOTATION_HOOKS_STDOUT, ANNOTATION_RESTRICTED, "it makes the runtime write to a file of the host"},
    {ANNOTATION_KEEP_GROUPS, ANNOTATION_GROUPS, "it keeps the supplementary groups of the caller"},
    {ANNOTATION_MOUNT_CONTEXT, ANNOTATION_RESTRICTED,
     "it changes what SELinux' label of the mounts applies to"},
    {ANNOTATION_SECCOMP_RECEIVER, ANNOTATION_RESTRICTED,
     "it lets a socket of the host decide on system calls"},
    {ANNOTATION_SECCOMP_PROGRAM, ANNOTATION_RESTRICTED, "it replaces the engine's seccomp filter"},
    /* It makes the runtime refuse a profile with a system call that libseccomp does not know. */
    {ANNOTATION_SECCOMP_FAIL_UNKNOWN, ANNOTATION_HARMLESS, NULL},
    {ANNOTATION_SYSTEMD_SUBGROUP, ANNOTATION_RESTRICTED, "it names a cgroup of the host"},
    /* Rules only remove rights, and denials are not logged unless runtime.json allows it. */
    {LANDLOCK_ANNOTATION, ANNOTATION_HARMLESS, NULL},
    /* Modules are imported in a container like the requested one. */
    {WARM_ANNOTATION_PRELOAD, ANNOTATION_HARMLESS, NULL},
    {HOOK_ANNOTATION_UNTRUSTED, ANNOTATION_HARMLESS, NULL},
    /* It cannot enable what warm.json disables. */
    {WARM_ANNOTATION_MODE, ANNOTATION_HARMLESS, NULL},
};
#define COUNT (sizeof(table) / sizeof(table[0]))

const struct annotation *annotations_rows(size_t *count)
{
    *count = COUNT;
    return table;
}

bool annotation_is_prefix(const struct annotation *row)
{
    return row->name[strlen(row->name) - 1] == '.';
}

const struct annotation *annotation_find(const char *name)
{
    for (size_t i = 0; i < COUNT; i++) {
        const char *rest = str_after(name, table[i].name);
        if (rest != NULL && (rest[0] == '\0' || annotation_is_prefix(&table[i])))
            return &table[i];
    }
    return NULL;
}

const char **annotations_unsafe(struct arena *a, size_t *count)
{
    const char **names = ARENA_ARRAY(a, COUNT, const char *);
    *count = 0;
    for (size_t i = 0; i < COUNT; i++)
        if (table[i].power != ANNOTATION_HARMLESS)
            names[(*count)++] = table[i].name;
    return names;
}
