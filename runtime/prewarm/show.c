/* Reading the store, and comparing a bundle's program with a snapshot, from outside. Nothing is made, and no
 * use is counted. */
#include "prewarm/show.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "container/create.h"
#include "prewarm/decide.h"
#include "prewarm/fit.h"
#include "prewarm/prewarm.h"
#include "prewarm/start_plan.h"
#include "warm/manifest/manifest.h"
#include "warm/store/store.h"

/* Return the values of all fields of this name in a key, separated by commas. */
static const char *key_values(struct arena *a, const struct warm_key *key, const char *name)
{
    struct text found = {.arena = a};
    for (const char *p = key->text; p < key->text + key->size; p += strlen(p) + 1) {
        const char *value = str_after(p, name);
        if (value == NULL || value[0] != '=')
            continue;
        text_separate(&found, ",");
        text_add(&found, "%s", value + 1);
    }
    return text_string(&found);
}

static struct shown_item item_of(struct arena *a, const struct store_item *item)
{
    return (struct shown_item){
        .key = arena_strdup(a, item->name),
        .state = item->failed != NULL  ? "failed"
                 : item->stale != NULL ? "stale"
                                       : "ready",
        .stale = item->stale,
        .failed = item->failed,
        .python = "",
        .preload = "",
        .size = item->size,
        .uses = item->uses,
        .built = item->built,
        .used = item->used,
    };
}

/* Fill in what is in the snapshot. Return false if it was removed after the list was made. */
static bool look_into(struct arena *a, const struct store *store, struct shown_item *item)
{
    struct store_entry entry;
    struct error unfit = {0};
    struct manifest_facts facts;
    int ret = store_open_item(a, store, item->key, false, &entry, &unfit);
    if (ret == -ENOTSUP) { /* another version of the runtime has made it */
        item->state = "stale";
        item->stale = arena_strdup(a, unfit.text);
        return true;
    }
    if (ret < 0) {
        item->state = "damaged";
        return ret != -ENOENT;
    }
    manifest_describe(entry.manifest, &facts);
    item->python = arena_strndup(a, facts.python, strcspn(facts.python, " "));
    item->preload = key_values(a, &facts.key, "preload");
    store_release(store, &entry);
    return true;
}

static int list_store(struct arena *a, const struct store *store, bool facts, struct shown_item **items,
                      size_t *count, struct error *err)
{
    struct store_item *made, *failed;
    size_t made_count, failed_count;
    int ret = store_list(a, store, &made, &made_count, err);
    if (ret == 0)
        ret = store_list_failed(a, store, &failed, &failed_count, err);
    if (ret < 0)
        return ret;
    *items = ARENA_ARRAY(a, made_count + failed_count + 1, struct shown_item);
    for (size_t i = 0; i < made_count; i++) {
        (*items)[*count] = item_of(a, &made[i]);
        *count += !facts || look_into(a, store, &(*items)[*count]);
    }
    for (size_t i = 0; i < failed_count; i++)
        (*items)[(*count)++] = item_of(a, &failed[i]);
    return 0;
}

int show_list(struct arena *a, bool facts, struct shown_item **items, size_t *count, struct error *err)
{
    struct store store;
    *items = NULL;
    *count = 0;
    int ret = prewarm_open_store(a, &store, err);
    if (ret < 0)
        return ret == -ENOENT ? 0 : ret;
    ret = list_store(a, &store, facts, items, count, err);
    store_close(&store);
    return ret;
}

static bool has_line(const struct warm_key *key, const char *line)
{
    for (const char *p = key->text; p < key->text + key->size; p += strlen(p) + 1)
        if (str_eq(p, line))
            return true;
    return false;
}

static void add_differences(struct arena *a, const struct warm_key *from, const struct warm_key *other,
                            char sign, struct str_list *out)
{
    for (const char *p = from->text; p < from->text + from->size; p += strlen(p) + 1)
        if (!has_line(other, p))
            out->items[out->count++] = arena_printf(a, "%c%s", sign, p);
}

static size_t count_lines(const struct warm_key *key)
{
    size_t count = 0;
    for (size_t i = 0; i < key->size; i++)
        count += key->text[i] == '\0';
    return count;
}

static void show_compare_keys(struct arena *a, const struct warm_key *snapshot, const struct warm_key *wanted,
                              struct shown_match *out)
{
    out->differences.items = ARENA_ARRAY(a, count_lines(snapshot) + count_lines(wanted) + 1, const char *);
    add_differences(a, snapshot, wanted, '-', &out->differences);
    add_differences(a, wanted, snapshot, '+', &out->differences);
    if (out->differences.count > 0)
        out->reason = "the keys differ";
}

static void show_compare(struct arena *a, const struct prewarm *prewarm, const struct store_entry *entry,
                         struct shown_match *out)
{
    struct manifest_facts facts;
    const struct warm_key *wanted = &prewarm->decision.key;
    manifest_describe(entry->manifest, &facts);
    out->key = arena_strdup(a, wanted->name);
    show_compare_keys(a, &facts.key, wanted, out);
    if (out->reason == NULL)
        out->reason = fit_reason(a, prewarm->start, &prewarm->decision, entry->manifest);
}

static int decide(struct creation *c, const struct runtime_options *rt, const struct create_options *options,
                  struct prewarm **out, struct error *err)
{
    *out = NULL;
    int ret = creation_plan(rt, options, NULL, CREATION_STAYS_A_PLAN, c, err);
    if (ret < 0)
        return ret;
    plan_warn(&c->arena, &c->plan);
    return c->plan.has_process ? prewarm_decide(&c->arena, start_of_plan(rt, options, c), out, err) : 0;
}

/* Open the snapshot called `key`, or the program's own if that is NULL, and compare the two. */
static int open_matched(struct arena *a, const struct runtime_options *rt,
                        const struct create_options *options, const struct store *store, const char *key,
                        struct store_entry *entry, struct shown_match *out, struct error *err)
{
    *out = (struct shown_match){0};
    cleanup_creation struct creation c;
    struct prewarm *prewarm;
    int ret = decide(&c, rt, options, &prewarm, err);
    if (ret < 0)
        return ret;
    bool wanted = prewarm != NULL && prewarm->decision.reason == NULL;
    if (!wanted)
        out->reason =
            prewarm != NULL ? arena_strdup(a, prewarm->decision.reason) : "the program is not CPython";
    if (key == NULL && !wanted)
        return error_text(err, -ENOENT, "no snapshot: %s", out->reason);
    ret = store_open_item(a, store, key != NULL ? key : prewarm->decision.key.name, false, entry, err);
    if (ret == 0 && wanted)
        show_compare(a, prewarm, entry, out);
    return ret;
}

/* Set *out to what the list says of a snapshot, or to NULL if it was removed. Return 0 or a negative errno.
 */
static int find_listed(struct arena *a, const struct store *store, const char *name,
                       const struct shown_item **out, struct error *err)
{
    struct store_item *items;
    size_t count;
    int ret = store_list(a, store, &items, &count, err);
    *out = NULL;
    for (size_t i = 0; ret == 0 && i < count && *out == NULL; i++)
        if (str_eq(items[i].name, name)) {
            struct shown_item *found = ARENA_NEW(a, struct shown_item);
            *found = item_of(a, &items[i]);
            *out = found;
        }
    return ret;
}

static void show_describe_snapshot(struct arena *a, const struct store *store,
                                   const struct store_entry *entry, struct shown_snapshot *out)
{
    struct manifest_facts facts;
    manifest_describe(entry->manifest, &facts);
    out->path = arena_printf(a, "%s/%s", store->path, entry->name);
    out->python = arena_strdup(a, facts.python);
    out->builder = arena_strdup(a, facts.builder);
    out->built = facts.built;
    out->files = facts.file_count;
    out->prefetched_pages = snapshot_write_pages(&entry->mapped);
    out->modules.items = ARENA_ARRAY(a, facts.module_count + 1, const char *);
    for (size_t i = 0; i < facts.module_count; i++)
        out->modules.items[out->modules.count++] = arena_strdup(a, manifest_module(entry->manifest, i));
    out->key.items = ARENA_ARRAY(a, count_lines(&facts.key) + 1, const char *);
    for (const char *p = facts.key.text; p < facts.key.text + facts.key.size; p += strlen(p) + 1)
        out->key.items[out->key.count++] = arena_strdup(a, p);
}

int show_snapshot(struct arena *a, const struct runtime_options *rt, const struct create_options *options,
                  const char *key, struct shown_snapshot *out, struct error *err)
{
    struct store store;
    struct store_entry entry;
    *out = (struct shown_snapshot){0};
    int ret = prewarm_open_store(a, &store, err);
    if (ret < 0)
        return ret;
    ret = options != NULL ? open_matched(a, rt, options, &store, key, &entry, &out->match, err)
                          : store_open_item(a, &store, key, false, &entry, err);
    if (ret == 0) {
        show_describe_snapshot(a, &store, &entry, out);
        ret = find_listed(a, &store, entry.name, &out->item, err);
        store_release(&store, &entry);
    }
    store_close(&store);
    return ret;
}
