/* The table of warm.json and its defaults. */
#include "warm/config.h"

#include "spec/schema.h"
#include "spec/settings.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const modes[] = {"auto", "require", "optIn", "off", NULL};

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

static const struct field builder_fields[] = {
    {.key = "timeout",
     .kind = FIELD_U32,
     .offset = offsetof(struct warm_config, builder.timeout),
     .min = 1,
     .max = 3600},
    {.key = "memory",
     .kind = FIELD_U64,
     .offset = offsetof(struct warm_config, builder.memory),
     .min = 0,
     .max = INT64_MAX},
};
static const struct schema builder_schema = {builder_fields, COUNT(builder_fields),
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
    {.key = "template", .kind = FIELD_INLINE, .offset = 0, .child = &builder_schema},
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
    .builder = {.timeout = 60, .memory = 0},
};

static const struct settings kind = {.name = "warm.json", .schema = &schema};

int warm_config_parse(struct arena *a, const char *text, size_t size, struct warm_config *out,
                      struct error *err)
{
    *out = defaults;
    return settings_parse(a, &kind, text, size, out, err);
}

int warm_config_read(struct arena *a, const char *path, bool root_of_host, struct warm_config *out,
                     struct error *err)
{
    *out = defaults;
    return settings_read(a, &kind, path, root_of_host, out, err);
}
