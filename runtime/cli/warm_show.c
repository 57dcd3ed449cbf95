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

static void print_row(const struct shown_item *item, struct arena *a)
{
    if (item->failed != NULL) {
        printf("%-32s  %-7s  %-9s  %5s  %s\n", item->key, item->state, "-", age_text(a, item->built),
               str_escaped(a, item->failed));
        return;
    }
    printf("%-32s  %-7s  %-9s  %5s  %5s  %7" PRIu64 "  %6" PRIu64 "M  %s\n", item->key, item->state,
           str_escaped(a, item->python), age_text(a, item->built),
           item->used != 0 ? age_text(a, item->used) : "-", item->uses, item->size >> 20,
           item->preload[0] != '\0' ? str_escaped(a, item->preload) : "-");
}

static void warm_show_write_item(struct json_out *out, const struct shown_item *item)
{
    json_out_map_open(out);
    json_out_pair_string(out, "key", item->key);
    json_out_pair_string(out, "state", item->state);
    json_out_pair_string(out, "stale", item->stale);
    json_out_pair_string(out, "failed", item->failed);
    json_out_pair_string(out, "python", item->python);
    json_out_pair_string(out, "preload", item->preload);
    json_out_pair_u64(out, "size", item->size);
    json_out_pair_i64(out, "built", item->built);
    json_out_pair_i64(out, "used", item->used);
    json_out_pair_u64(out, "uses", item->uses);
    json_out_map_close(out);
}

static int warm_show_print_table(struct arena *a, const struct shown_item *items, size_t count,
                                 struct error *err)
{
    printf("%-32s  %-7s  %-9s  %5s  %5s  %7s  %7s  %s\n", "KEY", "STATE", "PYTHON", "AGE", "USED", "USES",
           "SIZE", "PRELOAD");
    for (size_t i = 0; i < count; i++)
        print_row(&items[i], a);
    return output_finish(err);
}

static int warm_show_print_json(const struct shown_item *items, size_t count, struct error *err)
{
    cleanup_json_out struct json_out *out = json_out_new(false);
    json_out_array_open(out);
    for (size_t i = 0; i < count; i++)
        warm_show_write_item(out, &items[i]);
    json_out_array_close(out);
    return output_json(out, err);
}

/* The names of failed builds are not keys that `warm show` accepts. */
static int print_keys(const struct shown_item *items, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++)
        if (items[i].failed == NULL)
            puts(items[i].key);
    return output_finish(err);
}

static int run_list(struct invocation *invocation, void *values, struct error *err)
{
    const struct list_values *list = values;
    struct shown_item *items;
    size_t count;
    int ret = show_list(invocation->arena, !list->quiet, &items, &count, err);
    if (ret < 0)
        return ret;
    if (list->quiet)
        return print_keys(items, count, err);
    return list->format == OUTPUT_JSON ? warm_show_print_json(items, count, err)
                                       : warm_show_print_table(invocation->arena, items, count, err);
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

static void warm_show_write_strings(struct json_out *out, const char *name, const struct str_list *list)
{
    json_out_key(out, name);
    json_out_array_open(out);
    for (size_t i = 0; i < list->count; i++)
        json_out_string(out, list->items[i]);
    json_out_array_close(out);
}

static void write_match(struct json_out *out, const struct shown_match *match)
{
    json_out_key(out, "bundle");
    json_out_map_open(out);
    json_out_pair_string(out, "key", match->key);
    json_out_pair_bool(out, "fits", match->reason == NULL);
    json_out_pair_string(out, "reason", match->reason);
    warm_show_write_strings(out, "differences", &match->differences);
    json_out_map_close(out);
}

static int print_snapshot(const struct shown_snapshot *snapshot, bool compared, struct error *err)
{
    cleanup_json_out struct json_out *out = json_out_new(true);
    json_out_map_open(out);
    json_out_pair_string(out, "path", snapshot->path);
    if (snapshot->item != NULL) {
        json_out_pair_u64(out, "size", snapshot->item->size);
        json_out_pair_i64(out, "used", snapshot->item->used);
        json_out_pair_u64(out, "uses", snapshot->item->uses);
        json_out_pair_string(out, "stale", snapshot->item->stale);
    }
    json_out_pair_i64(out, "built", snapshot->built);
    json_out_pair_string(out, "builder", snapshot->builder);
    json_out_pair_string(out, "python", snapshot->python);
    json_out_pair_u64(out, "files", snapshot->files);
    json_out_pair_u64(out, "prefetchedPages", snapshot->prefetched_pages);
    warm_show_write_strings(out, "modules", &snapshot->modules);
    warm_show_write_strings(out, "key", &snapshot->key);
    if (compared)
        write_match(out, &snapshot->match);
    json_out_map_close(out);
    return output_json(out, err);
}

static int run_show(struct invocation *invocation, void *values, struct error *err)
{
    struct create_options *create = values;
    const char *key = invocation->count > 0 ? invocation->args[0] : NULL;
    bool compare = create->bundle != NULL;
    struct shown_snapshot snapshot;
    if (key == NULL && !compare)
        return error_text(err, -EINVAL, "no snapshot named: give a key, or --bundle DIR");
    warm_complete(create);
    int ret =
        show_snapshot(invocation->arena, invocation->runtime, compare ? create : NULL, key, &snapshot, err);
    return ret < 0 ? ret : print_snapshot(&snapshot, compare, err);
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
