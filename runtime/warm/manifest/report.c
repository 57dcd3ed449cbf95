/* Read a builder's report, record by record. */
#include "warm/manifest/report.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "warm/manifest/manifest.h"

#define RECORDS_MAX 200000

struct reader {
    struct arena *arena;
    const struct manifest_source *source;
    struct report *out;
};

static size_t count_records(const char *report, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += report[i] == '\0';
    return count;
}

static void add_path(struct reader *r, char kind, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash + 1;
    const char *directory = slash == path ? "/" : arena_strndup(r->arena, path, (size_t)(slash - path));
    bool whole = *name == '\0' || str_eq(name, ".") || str_eq(name, "..");
    struct report_item item = {
        .directory = directory,
        .name = name,
        .link = kind == 'l',
        .kind_only = kind == 'p',
        .status = kind != 'c' && kind != 'p',
        .unread = kind == 's' || kind == 'p',
    };
    if (whole)
        item = (struct report_item){.directory = path};
    r->out->items[r->out->item_count++] = item;
}

static int take_record(struct reader *r, const char *record, struct error *err)
{
    const char *text = record + 1;
    bool is_path = strchr("cfspdDalow", record[0]) != NULL;
    if (is_path && (text[0] != '/' || strlen(text) >= PATH_MAX))
        return error_text(err, -EPROTO, "the builder reports the path '%.128s', which is not absolute",
                          str_printable(r->arena, text));
    switch (record[0]) {
    case 'c':
    case 'f':
    case 's':
    case 'p':
    case 'a':
    case 'l':
        add_path(r, record[0], text);
        return 0;
    case 'd':
    case 'D':
        r->out->items[r->out->item_count++] =
            (struct report_item){.directory = text, .name = record[0] == 'd' ? NULL : ""};
        return 0;
    case 'w':
        r->out->places.items[r->out->places.count++] = text;
        return 0;
    case 'm':
        r->out->modules.items[r->out->modules.count++] = text;
        return 0;
    case 'e':
        /* A variable with such a name cannot be set. */
        if (text[0] == '\0' || strchr(text, '=') != NULL)
            return 0;
        r->out->variables.items[r->out->variables.count++] = text;
        return 0;
    case 'E':
        r->out->whole_environment = true;
        return 0;
    case 'V':
        r->out->values.items[r->out->values.count++] = text;
        return 0;
    case 'M': /* for the builder only, as the three that follow: the snapshot file names the mapped files */
    case 'o':
    case 'g':
    case 'k':
        return 0;
    case 't':
        r->out->asks_terminal = true;
        return 0;
    case 'v':
        r->out->python = text;
        return 0;
    case 'x':
        return error_text(err, -ENOEXEC, "%s",
                          text[0] != '\0' ? str_printable(r->arena, text) : "the builder gives no reason");
    default:
        return error_text(err, -EPROTO, "the builder reports '%.32s', which has no meaning",
                          str_printable(r->arena, record));
    }
}

static int take_report(struct reader *r, struct error *err)
{
    const char *report = r->source->report, *end = report + r->source->report_size;
    size_t count = count_records(report, r->source->report_size);
    if (r->source->report_size == 0 || end[-1] != '\0' || count > RECORDS_MAX)
        return error_text(err, -EPROTO, "the builder's report is cut off or too long");
    r->out->items = ARENA_ARRAY(r->arena, count, struct report_item);
    r->out->modules.items = ARENA_ARRAY(r->arena, count, const char *);
    r->out->variables.items = ARENA_ARRAY(r->arena, count + 1, const char *); /* and HOME */
    r->out->places.items = ARENA_ARRAY(r->arena, count, const char *);
    r->out->values.items = ARENA_ARRAY(r->arena, count, const char *);
    for (const char *record = report; record < end; record += strlen(record) + 1) {
        if (record[0] == 'r' && r->out->python[0] == '\0')
            return error_text(err, -EPROTO, "the builder does not say which Python it is");
        if (record[0] == 'r')
            return 0;
        int ret = take_record(r, record, err);
        if (ret < 0)
            return ret;
    }
    return error_text(err, -EPROTO, "the builder ended before it was ready");
}

static int by_place(const void *a, const void *b)
{
    const struct report_item *x = a, *y = b;
    int order = strcmp(x->directory, y->directory);
    if (order != 0 || x->name == y->name)
        return order;
    if (x->name == NULL || y->name == NULL)
        return x->name == NULL ? -1 : 1;
    order = strcmp(x->name, y->name);
    if (order == 0)
        order = x->kind_only - y->kind_only; /* the first of a name counts, which has the strictest demand */
    return order != 0 ? order : y->status - x->status;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void sort_names(struct report_names *names)
{
    if (names->count > 0)
        qsort(names->items, names->count, sizeof(*names->items), by_text);
    size_t kept = 0;
    for (size_t i = 0; i < names->count; i++)
        if (kept == 0 || !str_eq(names->items[i], names->items[kept - 1]))
            names->items[kept++] = names->items[i];
    names->count = kept;
}

/* Return the variable, or only the name of one that is not set: it must not be set later either. */
static const char *variable_of(char *const *envp, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; envp[i] != NULL; i++)
        if (strncmp(envp[i], name, length) == 0 && envp[i][length] == '=')
            return envp[i];
    return name;
}

static bool is_reported(const struct report_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (str_eq(names->items[i], name))
            return true;
    return false;
}

/* Let the first item of a name, which counts, have the demands of all of them. */
static void join_demands(struct report *report)
{
    for (size_t i = report->item_count; i-- > 1;) {
        const struct report_item *item = &report->items[i];
        struct report_item *before = &report->items[i - 1];
        if (item->name == NULL || before->name == NULL || !str_eq(item->name, before->name) ||
            !str_eq(item->directory, before->directory))
            continue;
        before->status = before->status || item->status;
        before->unread = before->unread && item->unread;
    }
}

/* HOME is handled elsewhere: it is part of the key. If it is not set, the child takes it from the container's
 * /etc/passwd. Only the result counts then: Podman writes another file for each container. */
static bool is_home(const char *variable)
{
    return strncmp(variable, "HOME", 4) == 0 && (variable[4] == '=' || variable[4] == '\0');
}

/* Return every variable, for imports that read all of them. An engine gives each container another HOSTNAME.
 * It counts only if it was read by name, because code that reads all variables looks for its own prefixes. */
static struct report_names whole_environment(struct reader *r)
{
    char *const *envp = r->source->envp;
    bool hostname = is_reported(&r->out->variables, "HOSTNAME");
    size_t all = 0;
    while (envp[all] != NULL)
        all++;
    struct report_names names = {ARENA_ARRAY(r->arena, all + 1, const char *), 0};
    for (size_t i = 0; i < all; i++)
        if (!is_home(envp[i]) && (hostname || str_after(envp[i], "HOSTNAME=") == NULL))
            names.items[names.count++] = envp[i];
    return names;
}

/* The C library and the interpreter read dozens of these, and the key contains them all. */
static bool is_in_key(struct reader *r, const char *name)
{
    return key_has_variable(arena_printf(r->arena, "%s=", name));
}

static struct report_names named_variables(struct reader *r)
{
    struct report_names names = {r->out->variables.items, 0};
    for (size_t i = 0; i < r->out->variables.count; i++)
        if (!is_home(r->out->variables.items[i]) && !is_in_key(r, r->out->variables.items[i]))
            names.items[names.count++] = variable_of(r->source->envp, r->out->variables.items[i]);
    return names;
}

static void resolve_variables(struct reader *r)
{
    r->out->variables = r->out->whole_environment ? whole_environment(r) : named_variables(r);
    if (r->source->home != NULL)
        r->out->variables.items[r->out->variables.count++] = r->source->home;
    sort_names(&r->out->variables);
}

int report_read(struct arena *a, const struct manifest_source *source, struct report *out, struct error *err)
{
    struct reader r = {.arena = a, .source = source, .out = out};
    *out = (struct report){.python = ""};
    int ret = take_report(&r, err);
    if (ret < 0)
        return ret;
    sort_names(&out->modules);
    sort_names(&out->places);
    resolve_variables(&r);
    if (out->item_count > 0)
        qsort(out->items, out->item_count, sizeof(*out->items), by_place);
    join_demands(out);
    return 0;
}
