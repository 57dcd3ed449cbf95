/* warm.json by the tables of spec/schema.h. Unlike config.json it is ours alone: a key without a row is a
 * mistake. */
#include "warm/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/io.h"
#include "base/path.h"
#include "base/str.h"
#include "spec/json.h"
#include "spec/schema.h"

#define CONFIG_MAX   ((size_t)1024 * 1024)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const modes[] = {"auto", "require", "off", NULL};

static const struct field rule_fields[] = {
    {.key = "annotation",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED | FIELD_NOT_EMPTY,
     .offset = offsetof(struct warm_rule, annotation)},
    {.key = "value",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED | FIELD_NOT_EMPTY,
     .offset = offsetof(struct warm_rule, value)},
    {.key = "preload",
     .kind = FIELD_STRINGS,
     .flags = FIELD_REQUIRED,
     .offset = offsetof(struct warm_rule, preload.items),
     .count_offset = offsetof(struct warm_rule, preload.count)},
};
static const struct schema rule_schema = {rule_fields, COUNT(rule_fields), sizeof(struct warm_rule), 0};

static const struct field template_fields[] = {
    {.key = "timeout",
     .kind = FIELD_U32,
     .offset = offsetof(struct warm_config, template_.timeout),
     .min = 1,
     .max = 3600},
    {.key = "memory",
     .kind = FIELD_U64,
     .offset = offsetof(struct warm_config, template_.memory),
     .min = 0,
     .max = INT64_MAX},
};
static const struct schema template_schema = {template_fields, COUNT(template_fields),
                                              sizeof(struct warm_config), 0};

static const struct field fields[] = {
    {.key = "mode", .kind = FIELD_STRING, .offset = offsetof(struct warm_config, mode), .words = modes},
    {.key = "secondRun", .kind = FIELD_BOOL, .offset = offsetof(struct warm_config, second_run)},
    {.key = "waitForBuild", .kind = FIELD_BOOL, .offset = offsetof(struct warm_config, wait_for_build)},
    {.key = "rebuildExpired", .kind = FIELD_BOOL, .offset = offsetof(struct warm_config, rebuild_expired)},
    {.key = "prefetch", .kind = FIELD_BOOL, .offset = offsetof(struct warm_config, prefetch)},
    {.key = "maxAge",
     .kind = FIELD_U32,
     .offset = offsetof(struct warm_config, max_age),
     .min = 1,
     .max = UINT32_MAX},
    {.key = "maxUses",
     .kind = FIELD_U64,
     .offset = offsetof(struct warm_config, max_uses),
     .min = 1,
     .max = INT64_MAX},
    {.key = "maxSize",
     .kind = FIELD_U64,
     .offset = offsetof(struct warm_config, max_size),
     .min = 0,
     .max = INT64_MAX},
    {.key = "retryAfter",
     .kind = FIELD_U32,
     .offset = offsetof(struct warm_config, retry_after),
     .min = 0,
     .max = UINT32_MAX},
    {.key = "template", .kind = FIELD_INLINE, .offset = 0, .child = &template_schema},
    {.key = "rules",
     .kind = FIELD_LIST,
     .offset = offsetof(struct warm_config, rules.items),
     .count_offset = offsetof(struct warm_config, rules.count),
     .child = &rule_schema},
};
static const struct schema schema = {fields, COUNT(fields), sizeof(struct warm_config), 0};

static const struct warm_config defaults = {
    .mode = "auto",
    .second_run = true,
    .wait_for_build = true,
    .rebuild_expired = true,
    .prefetch = true,
    .max_age = 24 * 60 * 60,
    .max_uses = 100000,
    .max_size = UINT64_C(4) << 30,
    .retry_after = 60,
    .template_ = {.timeout = 60, .memory = 0},
};

static const struct field *find_field(const struct schema *table, const char *key)
{
    for (size_t i = 0; i < table->count; i++)
        if (str_eq(table->fields[i].key, key))
            return &table->fields[i];
    return NULL;
}

static int refuse_unknown(struct arena *a, const struct json_value *object, const struct schema *table,
                          struct error *err)
{
    if (object->kind != JSON_OBJECT)
        return 0; /* decoding says what was expected */
    for (const struct json_value *member = object->first; member != NULL; member = member->next) {
        const struct field *field = find_field(table, member->key);
        if (field == NULL)
            return json_error(a, member, err, "unknown key");
        int ret = field->kind == FIELD_INLINE ? refuse_unknown(a, member, field->child, err) : 0;
        if (ret == 0 && field->kind == FIELD_LIST && member->kind == JSON_ARRAY)
            for (const struct json_value *item = member->first; ret == 0 && item != NULL; item = item->next)
                ret = refuse_unknown(a, item, field->child, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

/* The file of a user, or NULL. */
static const char *user_path(struct arena *a)
{
    const char *base = secure_getenv("XDG_CONFIG_HOME");
    const char *home = secure_getenv("HOME");
    if (base != NULL && base[0] == '/')
        return path_join(a, base, "pysbx-runtime/warm.json");
    return home != NULL && home[0] == '/' ? path_join(a, home, ".config/pysbx-runtime/warm.json") : NULL;
}

static int read_text(struct arena *a, const char *path, char **text, size_t *size, struct error *err)
{
    int ret = io_read_file_at(a, AT_FDCWD, path, CONFIG_MAX, text, size);
    if (ret == -ENOENT || ret == -ENOTDIR)
        return -ENOENT;
    return ret < 0 ? error_set(err, ret == -EINVAL ? -ENODEV : ret, "read '%s'", path) : 0;
}

int warm_config_read(struct arena *a, const char *path, bool root_of_host, struct warm_config *out,
                     struct error *err)
{
    *out = defaults;
    const char *candidates[] = {path, path == NULL && !root_of_host ? user_path(a) : NULL,
                                path == NULL ? WARM_CONFIG_PATH : NULL};
    for (size_t i = 0; i < COUNT(candidates); i++) {
        char *text;
        size_t size;
        struct json_value *root;
        int ret = candidates[i] != NULL ? read_text(a, candidates[i], &text, &size, err) : -ENOENT;
        if (ret == -ENOENT)
            continue;
        if (ret < 0)
            return ret;
        ret = json_parse(a, text, size, NULL, NULL, &root, err);
        if (ret == 0)
            ret = refuse_unknown(a, root, &schema, err);
        if (ret == 0)
            ret = schema_decode(a, root, &schema, out, err);
        return ret < 0 ? error_wrap(err, "%s", candidates[i]) : 0;
    }
    return 0;
}
