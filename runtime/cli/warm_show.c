/* warm list, warm show: facts about the prewarmed interpreters in the store. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json_out.h"
#include "base/str.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/warm.h"
#include "prewarm/show.h"

/* list */

struct list_values {
    bool quiet;
    int format;
};

static const struct option list_options[] = {
    {"quiet", 'q', OPTION_FLAG, offsetof(struct list_values, quiet), NULL, "print only the keys", NULL},
    {"format", 'f', OPTION_CHOICE, offsetof(struct list_values, format), "FORMAT",
     "format of the list: table or json", output_formats},
    {0},
};

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

static const char *age_text(struct arena *a, int64_t since)
{
    static const struct {
        int64_t seconds;
        const char *unit;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "m"}};
    int64_t age = (int64_t)time(NULL) - since;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (age >= 2 * units[i].seconds)
            return arena_printf(a, "%" PRId64 "%s", age / units[i].seconds, units[i].unit);
    return arena_printf(a, "%" PRId64 "s", age > 0 ? age : 0);
}

/* Facts of an item, in addition to those of the store, for the table and the JSON. */
struct shown {
    const struct store_item *item;
    const char *python, *preload, *state;
};

/* Fill in the facts. Return false if the snapshot was removed after the list was made. */
static bool look_into(struct arena *a, const struct store *store, const struct store_item *item,
                      struct shown *shown)
{
    *shown = (struct shown){item, "", "",
                            item->failed != NULL  ? "failed"
                            : item->stale != NULL ? "stale"
                                                  : "ready"};
    if (item->failed != NULL)
        return true;
    struct store_entry entry;
    struct error ignored = {0};
    struct manifest_facts facts;
    int ret = store_open_item(a, store, item->name, false, &entry, &ignored);
    if (ret < 0) {
        shown->state = "damaged";
        return ret != -ENOENT;
    }
    manifest_describe(entry.manifest, &facts);
    shown->python = arena_strndup(a, facts.python, strcspn(facts.python, " "));
    shown->preload = key_values(a, &facts.key, "preload");
    store_release(store, &entry);
    return true;
}

static void print_row(const struct shown *shown, struct arena *a)
{
    const struct store_item *item = shown->item;
    if (item->failed != NULL) {
        printf("%-32s  %-7s  %-9s  %5s  %s\n", item->name, shown->state, "-", age_text(a, item->built),
               str_escaped(a, item->failed));
        return;
    }
    printf("%-32s  %-7s  %-9s  %5s  %5s  %7" PRIu64 "  %6" PRIu64 "M  %s\n", item->name, shown->state,
           str_escaped(a, shown->python), age_text(a, item->built),
           item->used != 0 ? age_text(a, item->used) : "-", item->uses, item->size >> 20,
           shown->preload[0] != '\0' ? str_escaped(a, shown->preload) : "-");
}

static void write_item(struct json_out *out, const struct shown *shown)
{
    json_out_map_open(out);
    json_out_pair_string(out, "key", shown->item->name);
    json_out_pair_string(out, "state", shown->state);
    json_out_pair_string(out, "stale", shown->item->stale);
    json_out_pair_string(out, "failed", shown->item->failed);
    json_out_pair_string(out, "python", shown->python);
    json_out_pair_string(out, "preload", shown->preload);
    json_out_pair_u64(out, "size", shown->item->size);
    json_out_pair_i64(out, "built", shown->item->built);
    json_out_pair_i64(out, "used", shown->item->used);
    json_out_pair_u64(out, "uses", shown->item->uses);
    json_out_map_close(out);
}

static void print_items(struct arena *a, const struct store *store, const struct store_item *items,
                        size_t count, struct json_out *json)
{
    for (size_t i = 0; i < count; i++) {
        struct shown shown;
        if (!look_into(a, store, &items[i], &shown))
            continue;
        if (json != NULL)
            write_item(json, &shown);
        else
            print_row(&shown, a);
    }
}

/* Items of a list. --quiet omits failed builds, because their names are not keys that `warm show` accepts. */
struct store_items {
    struct store_item *items, *failed;
    size_t count, failed_count;
};

static int print_list(struct arena *a, const struct store *store, const struct store_items *listed,
                      const struct list_values *list, struct error *err)
{
    if (list->quiet) {
        for (size_t i = 0; i < listed->count; i++)
            puts(listed->items[i].name);
        return output_finish(err);
    }
    cleanup_json_out struct json_out *json = list->format == OUTPUT_JSON ? json_out_new(false) : NULL;
    if (json != NULL)
        json_out_array_open(json);
    else
        printf("%-32s  %-7s  %-9s  %5s  %5s  %7s  %7s  %s\n", "KEY", "STATE", "PYTHON", "AGE", "USED", "USES",
               "SIZE", "PRELOAD");
    print_items(a, store, listed->items, listed->count, json);
    print_items(a, store, listed->failed, listed->failed_count, json);
    if (json == NULL)
        return output_finish(err);
    json_out_array_close(json);
    return output_json(json, err);
}

static int list_store(struct arena *a, const struct store *store, const struct list_values *list,
                      struct error *err)
{
    struct store_items listed = {0};
    int ret = store_list(a, store, &listed.items, &listed.count, err);
    if (ret < 0)
        return ret;
    ret = store_list_failed(a, store, &listed.failed, &listed.failed_count, err);
    return ret < 0 ? ret : print_list(a, store, &listed, list, err);
}

static int run_list(struct invocation *invocation, void *values, struct error *err)
{
    struct arena *a = invocation->arena;
    struct store store;
    bool there = false;
    int ret = warm_open_store(a, &store, &there, err);
    if (ret < 0)
        return ret;
    if (!there)
        return print_list(a, NULL, &(struct store_items){0}, values, err);
    ret = list_store(a, &store, values, err);
    store_close(&store);
    return ret;
}

const struct command command_warm_list = {
    .name = "warm list",
    .arguments = "",
    .summary = "list the snapshots, in the order of their last use",
    .options = list_options,
    .values_size = sizeof(struct list_values),
    .run = run_list,
};

/* show */

static const struct option show_options[] = {
    {"bundle", 'b', OPTION_STRING, offsetof(struct create_options, bundle), "DIR",
     "compare with the program of this bundle (default key: its snapshot)", NULL},
    WARM_CONFIG_OPTION,
    {0},
};

static void write_key(struct json_out *out, const struct warm_key *key)
{
    json_out_key(out, "key");
    json_out_array_open(out);
    for (const char *p = key->text; p < key->text + key->size; p += strlen(p) + 1)
        json_out_string(out, p);
    json_out_array_close(out);
}

static void write_match(struct json_out *out, const struct warm_match *match)
{
    json_out_key(out, "bundle");
    json_out_map_open(out);
    json_out_pair_string(out, "key", match->key);
    json_out_pair_bool(out, "fits", match->reason == NULL);
    json_out_pair_string(out, "reason", match->reason);
    json_out_key(out, "differences");
    json_out_array_open(out);
    for (size_t i = 0; i < match->differences.count; i++)
        json_out_string(out, match->differences.items[i]);
    json_out_array_close(out);
    json_out_map_close(out);
}

static int print_snapshot(struct arena *a, const struct store *store, const struct store_entry *entry,
                          const struct warm_match *match, struct error *err)
{
    struct store_item *items;
    size_t count;
    struct manifest_facts facts;
    int ret = store_list(a, store, &items, &count, err);
    if (ret < 0)
        return ret;
    manifest_describe(entry->manifest, &facts);
    cleanup_json_out struct json_out *out = json_out_new(true);
    json_out_map_open(out);
    json_out_pair_string(out, "path", arena_printf(a, "%s/%s", store->path, entry->name));
    for (size_t i = 0; i < count; i++)
        if (str_eq(items[i].name, entry->name)) {
            json_out_pair_u64(out, "size", items[i].size);
            json_out_pair_i64(out, "used", items[i].used);
            json_out_pair_u64(out, "uses", items[i].uses);
            json_out_pair_string(out, "stale", items[i].stale);
        }
    json_out_pair_i64(out, "built", facts.built);
    json_out_pair_string(out, "builder", facts.builder);
    json_out_pair_string(out, "python", facts.python);
    json_out_pair_u64(out, "files", facts.file_count);
    json_out_pair_u64(out, "prefetchedPages", snapshot_write_pages(&entry->mapped));
    json_out_key(out, "modules");
    json_out_array_open(out);
    for (size_t i = 0; i < facts.module_count; i++)
        json_out_string(out, manifest_module(entry->manifest, i));
    json_out_array_close(out);
    write_key(out, &facts.key);
    if (match != NULL)
        write_match(out, match);
    json_out_map_close(out);
    return output_json(out, err);
}

static int run_show(struct invocation *invocation, void *values, struct error *err)
{
    struct create_options *create = values;
    struct arena *a = invocation->arena;
    const char *key = invocation->count > 0 ? invocation->args[0] : NULL;
    bool compare = create->bundle != NULL;
    struct store store;
    struct store_entry entry;
    struct warm_match match;
    if (key == NULL && !compare)
        return error_text(err, -EINVAL, "no snapshot named: give a key, or --bundle DIR");
    int ret = show_store(a, &store, err);
    if (ret < 0)
        return ret;
    warm_complete(create);
    ret = compare ? show_match(a, invocation->runtime, create, &store, key, &entry, &match, err)
                  : store_open_item(a, &store, key, false, &entry, err);
    if (ret == 0) {
        ret = print_snapshot(a, &store, &entry, compare ? &match : NULL, err);
        store_release(&store, &entry);
    }
    store_close(&store);
    return ret;
}

const struct command command_warm_show = {
    .name = "warm show",
    .arguments = "[KEY]",
    .summary = "show a snapshot as JSON, and whether it fits the program of a bundle",
    .options = show_options,
    .values_size = sizeof(struct create_options),
    .max_args = 1,
    .run = run_show,
};
