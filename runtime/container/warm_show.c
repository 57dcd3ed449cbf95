/* A bundle's program beside a snapshot, seen from outside: nothing is made, nothing is counted. */
#include "container/warm_show.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "container/create.h"
#include "container/warm_start.h"
#include "warm/manifest/manifest.h"
#include "warm/root_view.h"

int warm_show_store(struct arena *a, struct store *out, struct error *err)
{
    int root_of_host = warm_root_of_host(err);
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

/* What the child would check in the container. */
static int compare_files(const struct plan *plan, const struct manifest *manifest, struct arena *a,
                         struct error *err)
{
    struct look look;
    const struct process_plan *process = &plan->process;
    cleanup_fd int root = open(plan->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_set(err, -errno, "open the root '%s'", plan->rootfs);
    look_plan(a, plan->spec, root, plan->bundle, &look);
    int ret = manifest_check_environment(manifest, process->envp, err);
    if (ret == 0)
        ret = manifest_verify(manifest, &look, NULL, err);
    if (ret == 0)
        ret = manifest_check_program(manifest, &look, &plan->warm->decision.command_line, process->argv,
                                     process->cwd, err);
    return ret;
}

static void compare(struct arena *a, const struct plan *plan, const struct store_slot *slot,
                    struct warm_match *out)
{
    struct manifest_facts facts;
    struct error reason = {0};
    const struct warm_key *wanted = &plan->warm->decision.key;
    manifest_describe(slot->manifest, &facts);
    out->key = arena_strdup(a, wanted->name);
    compare_keys(a, &facts.key, wanted, out);
    if (out->reason == NULL && compare_files(plan, slot->manifest, a, &reason) < 0)
        out->reason = arena_strdup(a, reason.text);
}

int warm_show_match(struct arena *a, const struct runtime_options *rt, const struct create_options *options,
                    const struct store *store, const char *key, struct store_slot *slot,
                    struct warm_match *out, struct error *err)
{
    *out = (struct warm_match){0};
    struct creation c = CREATION_NONE;
    struct plan_source source;
    int ret = plan_read(&c.arena, options, &source, err);
    if (ret == 0)
        ret = plan_make(&c.arena, rt, options, &source, -1, &c.plan, err);
    if (ret == 0)
        plan_warn(&c.arena, &c.plan);
    if (ret == 0)
        ret = warm_start_plan(&c.arena, rt, &c.plan, err);
    bool wanted = ret == 0 && c.plan.warm != NULL && c.plan.warm->reason == NULL;
    if (ret == 0 && !wanted)
        out->reason =
            c.plan.warm != NULL ? arena_strdup(a, c.plan.warm->reason) : "the program is not CPython";
    if (ret == 0 && key == NULL && !wanted)
        ret = error_text(err, -ENOENT, "no snapshot: %s", out->reason);
    if (ret == 0)
        ret = store_open_item(a, store, key != NULL ? key : c.plan.warm->decision.key.name, false, slot, err);
    if (ret == 0 && wanted)
        compare(a, &c.plan, slot, out);
    creation_release(&c);
    return ret;
}
