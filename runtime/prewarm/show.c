/* Comparing a bundle's program with a snapshot, from outside. This makes nothing, and counts no use. */
#include "prewarm/show.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "container/create.h"
#include "prewarm/decide.h"
#include "prewarm/fit.h"
#include "prewarm/prewarm.h"
#include "prewarm/start_plan.h"

int show_store(struct arena *a, struct store *out, struct error *err)
{
    int root_of_host = prewarm_root_of_host(err);
    if (root_of_host < 0)
        return root_of_host;
    const char *path = store_path(a, root_of_host);
    if (path == NULL)
        return error_text(err, -ENOENT,
                          "there is no place for snapshots: neither XDG_DATA_HOME nor HOME is set");
    return store_open(path, false, out, err);
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

static void compare_keys(struct arena *a, const struct warm_key *snapshot, const struct warm_key *wanted,
                         struct warm_match *out)
{
    out->differences.items = ARENA_ARRAY(a, count_lines(snapshot) + count_lines(wanted) + 1, const char *);
    add_differences(a, snapshot, wanted, '-', &out->differences);
    add_differences(a, wanted, snapshot, '+', &out->differences);
    if (out->differences.count > 0)
        out->reason = "the keys differ";
}

static void compare(struct arena *a, const struct prewarm *prewarm, const struct store_entry *entry,
                    struct warm_match *out)
{
    struct manifest_facts facts;
    const struct warm_key *wanted = &prewarm->decision.key;
    manifest_describe(entry->manifest, &facts);
    out->key = arena_strdup(a, wanted->name);
    compare_keys(a, &facts.key, wanted, out);
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

int show_match(struct arena *a, const struct runtime_options *rt, const struct create_options *options,
               const struct store *store, const char *key, struct store_entry *entry, struct warm_match *out,
               struct error *err)
{
    *out = (struct warm_match){0};
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
        compare(a, prewarm, entry, out);
    return ret;
}
