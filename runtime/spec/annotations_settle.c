/* Apply the administrator's decision to the annotations of a configuration, and find the name that a misspelt
 * one may mean. */
#include "spec/annotations.h"

#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "base/json_out.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"
#include "spec/policy.h"

#define NOT_KNOWN    "not known to this release, and ignored"
#define PREFIX       "run.pysbx."
#define COMPARED_MAX 32 /* longer names are not compared, because a typing error does not explain them */
#define NAMED_MAX    4  /* annotations that are named without --log-level */

/* Return why the annotation is ignored, or NULL if it is honoured. */
static const char *objection(struct arena *a, const struct policy *policy, const char *path, const char *name)
{
    const struct annotation *row = annotation_find(name);
    if (row == NULL || row->power == ANNOTATION_HARMLESS ||
        (row->power == ANNOTATION_GROUPS && policy->keep_groups) || policy_allows(policy, name))
        return NULL;
    if (row->power == ANNOTATION_GROUPS)
        return arena_printf(a, "%s, and keepOriginalGroups in '%s' is false", row->effect, path);
    if (path == NULL)
        return arena_printf(a, "%s, and no runtime.json allows it: neither XDG_CONFIG_HOME nor HOME is set",
                            row->effect);
    return arena_printf(a, "%s, and allowAnnotations in '%s' does not allow it", row->effect, path);
}

void annotations_settle(struct arena *a, const struct policy *policy, bool root_of_host,
                        struct str_map *annotations, struct annotations_ignored *ignored)
{
    const struct str_map all = *annotations;
    const char *path = NULL;
    *ignored = (struct annotations_ignored){0};
    for (size_t i = 0; i < all.count; i++) {
        const struct annotation *row = annotation_find(all.items[i].key);
        if (row == NULL || row->power == ANNOTATION_HARMLESS)
            continue;
        if (path == NULL)
            path = policy_path(a, root_of_host);
        const char *reason = objection(a, policy, path, all.items[i].key);
        if (reason == NULL)
            continue;
        if (ignored->pairs.count == 0) {
            ignored->pairs.items = ARENA_ARRAY(a, all.count, struct str_pair);
            ignored->reasons = ARENA_ARRAY(a, all.count, const char *);
        }
        ignored->reasons[ignored->pairs.count] = reason;
        ignored->pairs.items[ignored->pairs.count++] = all.items[i];
    }
    if (ignored->pairs.count == 0)
        return;
    annotations->items = ARENA_ARRAY(a, all.count, struct str_pair);
    annotations->count = 0;
    for (size_t i = 0, j = 0; i < all.count; i++) {
        if (j < ignored->pairs.count && ignored->pairs.items[j].key == all.items[i].key)
            j++;
        else
            annotations->items[annotations->count++] = all.items[i];
    }
}

bool annotation_is_unknown(const char *name)
{
    return str_after(name, PREFIX) != NULL && annotation_find(name) == NULL;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Return how many letters have to be inserted, omitted, replaced or exchanged with their neighbour. Each name
 * has at most COMPARED_MAX letters. */
static size_t distance(const char *a, size_t length_a, const char *b, size_t length_b)
{
    size_t d[COMPARED_MAX + 1][COMPARED_MAX + 1];
    for (size_t i = 0; i <= length_a; i++)
        for (size_t j = 0; j <= length_b; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[length_a][length_b];
}

/* Return whether one name begins with the other, with enough letters that this is no coincidence. */
static bool begins_alike(const char *a, size_t length_a, const char *b, size_t length_b)
{
    size_t shorter = least(length_a, length_b);
    return shorter >= 3 && strncmp(a, b, shorter) == 0;
}

/* Return the nearest known name, or NULL if none is near. A third of its letters may be wrong. */
static const char *nearest(const char *name)
{
    const char *own = name + strlen(PREFIX), *found = NULL;
    size_t length = strlen(own), best = COMPARED_MAX;
    if (length > COMPARED_MAX)
        return NULL;
    size_t count;
    const struct annotation *rows = annotations_rows(&count);
    for (size_t i = 0; i < count; i++) {
        const char *other = str_after(rows[i].name, PREFIX);
        size_t other_length = other != NULL ? strlen(other) : 0;
        if (other == NULL || other_length > COMPARED_MAX)
            continue;
        size_t wrong = distance(own, length, other, other_length);
        bool near = wrong <= (other_length + 1) / 3 || begins_alike(own, length, other, other_length);
        if (near && wrong < best) {
            best = wrong;
            found = rows[i].name;
        }
    }
    return found;
}

static void warn_ignored(struct arena *a, const struct annotations_ignored *ignored)
{
    const struct str_map *pairs = &ignored->pairs;
    if (pairs->count == 0)
        return;
    if (pairs->count == 1) {
        log_notice("annotation '%.128s' is ignored: %s", str_printable(a, pairs->items[0].key),
                   ignored->reasons[0]);
        return;
    }
    struct text names = {.arena = a};
    for (size_t i = 0; i < pairs->count && i < NAMED_MAX; i++) {
        text_separate(&names, ", ");
        text_add(&names, "'%.128s'", str_printable(a, pairs->items[i].key));
    }
    if (pairs->count > NAMED_MAX)
        text_add(&names, " and %zu more", pairs->count - NAMED_MAX);
    log_notice("annotations %s are ignored: runtime.json does not allow them ('pysbx-runtime plan' gives the "
               "reasons)",
               text_string(&names));
}

void annotations_warn_unknown(const struct str_map *annotations)
{
    size_t named = 0;
    for (size_t i = 0; i < annotations->count; i++) {
        const char *name = annotations->items[i].key;
        if (!annotation_is_unknown(name))
            continue;
        const char *near = nearest(name);
        if (near == NULL)
            log_warning("annotation '%.128s': " NOT_KNOWN, name);
        else if (named++ < NAMED_MAX)
            log_notice("annotation '%.128s': " NOT_KNOWN "; is '%s' meant?", name, near);
        else
            log_warning("annotation '%.128s': " NOT_KNOWN "; is '%s' meant?", name, near);
    }
}

void annotations_warn(struct arena *a, const struct str_map *annotations,
                      const struct annotations_ignored *ignored)
{
    warn_ignored(a, ignored);
    annotations_warn_unknown(annotations);
}

static void describe_unknown(const struct str_map *annotations, struct json_out *out)
{
    bool open = false;
    for (size_t i = 0; i < annotations->count; i++) {
        const char *name = annotations->items[i].key;
        if (!annotation_is_unknown(name))
            continue;
        if (!open) {
            json_out_key(out, "unknownAnnotations");
            json_out_array_open(out);
            open = true;
        }
        json_out_map_open(out);
        json_out_pair_string(out, "name", name);
        json_out_pair_string(out, "nearest", nearest(name));
        json_out_map_close(out);
    }
    if (open)
        json_out_array_close(out);
}

void annotations_describe(const struct str_map *annotations, const struct annotations_ignored *ignored,
                          struct json_out *out)
{
    describe_unknown(annotations, out);
    if (ignored->pairs.count == 0)
        return;
    json_out_key(out, "ignoredAnnotations");
    json_out_array_open(out);
    for (size_t i = 0; i < ignored->pairs.count; i++) {
        json_out_map_open(out);
        json_out_pair_string(out, "name", ignored->pairs.items[i].key);
        json_out_pair_string(out, "reason", ignored->reasons[i]);
        json_out_map_close(out);
    }
    json_out_array_close(out);
}
