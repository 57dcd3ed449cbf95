/* The interface of the room: decode a text into structures, and look up values in a spec. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "spec/json.h"
#include "spec/spec.h"
#include "spec/tables.h"

/* Since runtime-spec 1.2, a relative destination is relative to the container's "/". */
static void make_destinations_absolute(struct arena *a, struct spec_mounts *mounts)
{
    for (size_t i = 0; i < mounts->count; i++)
        if (mounts->items[i].destination[0] != '/')
            mounts->items[i].destination = arena_printf(a, "/%s", mounts->items[i].destination);
}

static size_t name_length(const char *entry)
{
    return strcspn(entry, "=");
}

/* Order entries of an environment by their names, and those of one name as they are in the environment. */
static int compare_names(const void *left, const void *right)
{
    const char **const *one = left, **const *other = right;
    const size_t length = name_length(**one), other_length = name_length(**other);
    int order = strncmp(**one, **other, length < other_length ? length : other_length);
    if (order == 0)
        order = (length > other_length) - (length < other_length);
    return order != 0 ? order : (*one > *other) - (*one < *other);
}

/* Set the entries to NULL whose variable is set again behind them. An image chooses how many entries there
 * are, so each one is not compared with all the others. */
static void drop_replaced(struct arena *a, const char **items, size_t count)
{
    const char ***sorted = arena_alloc(a, (count + 1) * sizeof(*sorted));
    for (size_t i = 0; i < count; i++)
        sorted[i] = &items[i];
    qsort(sorted, count, sizeof(*sorted), compare_names);
    const char *last = NULL; /* entry that sets the variable of the entries before it in the order */
    for (size_t i = count; i-- > 0;) {
        const char *entry = *sorted[i];
        const size_t length = name_length(entry);
        if (last != NULL && name_length(last) == length && strncmp(last, entry, length) == 0)
            *sorted[i] = NULL;
        else if (entry[length] == '=')
            last = entry;
    }
}

/* If a variable is set twice, the last one counts, as with runc and crun. getenv(3) would find the first.
 * Entries without a name, "" and "=x", are left out as with crun, because images have them by mistake. An
 * entry without "=" reaches the program unchanged: execve(2) has no rule. */
static void tidy_environment(struct arena *a, struct spec_process *process)
{
    struct str_list *env = &process->env;
    const char **items = (const char **)(uintptr_t)env->items;
    drop_replaced(a, items, env->count);
    size_t kept = 0;
    for (size_t i = 0; i < env->count; i++)
        if (items[i] != NULL && name_length(items[i]) > 0)
            items[kept++] = items[i];
    env->count = kept;
}

int spec_parse(struct arena *a, const char *text, size_t size, struct spec **out, struct error *err)
{
    /* The seccomp profile is most of an engine's configuration. It is needed only if its program is not in
     * the cache. */
    static const char *const opaque[] = {"linux", "seccomp", NULL};
    struct json_value *root;
    int ret = json_parse(a, text, size, NULL, opaque, &root, err);
    if (ret < 0)
        return error_wrap(err, "config.json");
    struct spec *spec = ARENA_NEW(a, struct spec);
    ret = schema_decode(a, root, &spec_schema, spec, err);
    if (ret < 0)
        return error_wrap(err, "config.json");
    if (spec->linux_ == NULL)
        spec->linux_ = ARENA_NEW(a, struct spec_linux);
    make_destinations_absolute(a, &spec->mounts);
    if (spec->process != NULL)
        tidy_environment(a, spec->process);
    *out = spec;
    return 0;
}

/* Parse a text that consists of one object of the specification. */
static int parse_object(struct arena *a, struct json_text text, const char *name, const struct schema *schema,
                        void **out, struct error *err)
{
    struct json_value *root;
    int ret = json_parse(a, text.data, text.size, name, NULL, &root, err);
    if (ret < 0)
        return ret;
    *out = arena_alloc(a, schema->size);
    return schema_decode(a, root, schema, *out, err);
}

int spec_parse_process(struct arena *a, const char *text, size_t size, struct spec_process **out,
                       struct error *err)
{
    void *process;
    int ret = parse_object(a, (struct json_text){text, size}, "process", &process_schema, &process, err);
    if (ret < 0)
        return ret;
    *out = process;
    tidy_environment(a, *out);
    return 0;
}

int spec_parse_resources(struct arena *a, const char *text, size_t size, struct spec_resources **out,
                         struct error *err)
{
    void *resources;
    int ret = parse_object(a, (struct json_text){text, size}, "linux.resources", &resources_schema,
                           &resources, err);
    if (ret < 0)
        return ret;
    *out = resources;
    return 0;
}

int spec_parse_seccomp(struct arena *a, struct json_text text, struct spec_seccomp **out, struct error *err)
{
    void *seccomp;
    int ret = parse_object(a, text, "linux.seccomp", &seccomp_schema, &seccomp, err);
    if (ret < 0)
        return ret;
    *out = seccomp;
    return 0;
}

const char *str_map_get(const struct str_map *map, const char *key)
{
    for (size_t i = 0; i < map->count; i++)
        if (str_eq(map->items[i].key, key))
            return map->items[i].value;
    return NULL;
}

bool spec_mount_has_option(const struct spec_mount *mount, const char *word)
{
    for (size_t i = 0; i < mount->options.count; i++)
        if (str_eq(mount->options.items[i], word))
            return true;
    return false;
}

bool spec_mount_is_bind(const struct spec_mount *mount)
{
    return str_eq(mount->type, "bind") || spec_mount_has_option(mount, "bind") ||
           spec_mount_has_option(mount, "rbind");
}

const char *spec_annotation(const struct spec *spec, const char *key)
{
    return str_map_get(&spec->annotations, key);
}

const struct spec_namespace *spec_namespace(const struct spec *spec, const char *type)
{
    const struct spec_namespaces *list = &spec->linux_->namespaces;
    for (size_t i = 0; i < list->count; i++)
        if (str_eq(list->items[i].type, type))
            return &list->items[i];
    return NULL;
}

bool spec_new_namespace(const struct spec *spec, const char *type)
{
    const struct spec_namespace *entry = spec_namespace(spec, type);
    return entry != NULL && entry->path == NULL;
}
