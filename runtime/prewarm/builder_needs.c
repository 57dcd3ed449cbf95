/* Parsing a probe's report into the list of what its builder gets. */
#include "prewarm/builder_needs.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/str.h"
#include "warm/key.h"

static int needs_by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void sort(struct str_list *list)
{
    if (list->count > 0)
        qsort(list->items, list->count, sizeof(*list->items), needs_by_text);
}

/* Return whether records of this kind name a path (manifest.h). A path that is absent only needs the mount in
 * which it is looked up. */
static bool is_path(char kind)
{
    return strchr("acdDflopw", kind) != NULL;
}

/* Return the texts of all records of a kind, each after a space. */
static const char *join(struct arena *a, const char *report, size_t size, char kind)
{
    char *out = arena_alloc(a, size + 1), *end = out;
    for (const char *record = report; record < report + size && *record != 'r'; record += strlen(record) + 1)
        if (record[0] == kind) {
            *end++ = ' ';
            end = stpcpy(end, record + 1);
        }
    *end = '\0';
    return out;
}

void builder_needs_read(struct arena *a, const char *report, size_t size, struct builder_needs *out)
{
    size_t records = 0;
    for (size_t i = 0; i < size; i++)
        records += report[i] == '\0';
    *out = (struct builder_needs){.paths.items = ARENA_ARRAY(a, records + 1, const char *),
                                  .names.items = ARENA_ARRAY(a, records + 1, const char *)};
    out->digests = join(a, report, size, 'g');
    out->values = join(a, report, size, 'k');
    for (const char *record = report; record < report + size && *record != 'r';
         record += strlen(record) + 1) {
        if (is_path(record[0]))
            out->paths.items[out->paths.count++] = record + 1;
        else if (record[0] == 'e')
            out->names.items[out->names.count++] = record + 1;
        else if (record[0] == 'E')
            out->whole_environment = true;
        else if (record[0] == 'V' && strstr(record, ":/") != NULL)
            out->paths.items[out->paths.count++] = strchr(record, ':') + 1;
        else if (record[0] == 'M')
            out->reads_mounts = true;
    }
    sort(&out->paths);
    sort(&out->names);
}

static bool has_name(const struct str_list *names, const char *name, size_t length)
{
    for (size_t i = 0; i < names->count; i++)
        if (strncmp(names->items[i], name, length) == 0 && names->items[i][length] == '\0')
            return true;
    return false;
}

static bool needs_include(const struct builder_needs *needs, const char *variable)
{
    static const char hostname[] = "HOSTNAME";
    size_t length = strcspn(variable, "=");
    if (key_has_variable(variable) || has_name(&needs->names, variable, length))
        return true;
    bool is_hostname = length == sizeof(hostname) - 1 && memcmp(variable, hostname, length) == 0;
    return needs->whole_environment && !is_hostname;
}

struct str_list builder_needs_environment(struct arena *a, const struct builder_needs *needs,
                                          const struct str_list *environment)
{
    struct str_list out = {ARENA_ARRAY(a, environment->count + 1, const char *), 0};
    for (size_t i = 0; i < environment->count; i++)
        if (needs_include(needs, environment->items[i]))
            out.items[out.count++] = environment->items[i];
    return out;
}

bool builder_needs_path(const struct builder_needs *needs, const char *path)
{
    if (str_eq(path, "/"))
        return needs->paths.count > 0;
    for (size_t i = 0; i < needs->paths.count; i++) {
        const char *rest = str_after(needs->paths.items[i], path);
        if (rest != NULL && (*rest == '/' || *rest == '\0'))
            return true;
    }
    return false;
}
