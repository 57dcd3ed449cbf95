/* The table of runtime.json, its defaults, and the check of its list of annotations. */
#include "spec/policy.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "spec/annotations.h"
#include "spec/json.h"
#include "spec/schema.h"
#include "spec/settings.h"

static const struct field fields[] = {
    {.key = "allowAnnotations",
     .kind = FIELD_STRINGS,
     .offset = offsetof(struct policy, allow.items),
     .count_offset = offsetof(struct policy, allow.count)},
    {.key = "landlockLog", .kind = FIELD_BOOL, .offset = offsetof(struct policy, landlock_log)},
    {.key = "keepOriginalGroups", .kind = FIELD_BOOL, .offset = offsetof(struct policy, keep_groups)},
};
static const struct schema schema = {fields, sizeof(fields) / sizeof(fields[0]), sizeof(struct policy), 0};

static const struct policy defaults = {.keep_groups = true};

/* Return whether the entry is "prefix.*", which covers all annotations of a row that is a prefix. */
static bool is_whole_prefix(const char *entry, const struct annotation *row)
{
    return annotation_is_prefix(row) && str_eq(str_after(entry, row->name), "*");
}

/* Return whether the entry names at least one annotation that has to be allowed. */
static bool is_useful(const char *entry)
{
    const struct annotation *row = annotation_find(entry);
    if (row == NULL || row->power != ANNOTATION_RESTRICTED)
        return false;
    const char *rest = str_after(entry, row->name);
    return !annotation_is_prefix(row) || str_eq(rest, "*") || (rest[0] != '\0' && strchr(rest, '*') == NULL);
}

/* Refuse an entry that allows nothing. It is a mistake: a misspelt name, or one that needs no entry. */
static int policy_check(struct arena *a, const void *decoded, struct error *err)
{
    const struct policy *policy = decoded;
    (void)a;
    for (size_t i = 0; i < policy->allow.count; i++) {
        const char *entry = policy->allow.items[i];
        if (!is_useful(entry))
            return error_text(err, -EINVAL,
                              "allowAnnotations[%zu]: '%.128s' is not an annotation that has to be allowed: "
                              "ANNOTATIONS in pysbx-runtime(8) lists them",
                              i, entry);
    }
    return 0;
}

static const struct settings kind = {
    .name = "runtime.json", .schema = &schema, .guarded = true, .check = policy_check};

int policy_parse(struct arena *a, const char *text, size_t size, struct policy *out, struct error *err)
{
    *out = defaults;
    return settings_parse(a, &kind, text, size, out, err);
}

int policy_read(struct arena *a, const char *path, bool root_of_host, struct policy *out, struct error *err)
{
    *out = defaults;
    return settings_read(a, &kind, path, root_of_host, out, err);
}

const char *policy_path(struct arena *a, bool root_of_host)
{
    return settings_path(a, &kind, root_of_host);
}

bool policy_allows(const struct policy *policy, const char *annotation)
{
    const struct annotation *row = annotation_find(annotation);
    for (size_t i = 0; row != NULL && i < policy->allow.count; i++)
        if (str_eq(policy->allow.items[i], annotation) || is_whole_prefix(policy->allow.items[i], row))
            return true;
    return false;
}
