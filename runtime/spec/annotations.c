/* The table of annotations. */
#include "spec/annotations.h"

#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "base/str.h"

#define ROW(name, power, effect) {name, ANNOTATION_##power, effect},
static const struct annotation table[] = {ANNOTATIONS(ROW)};
#define COUNT (sizeof(table) / sizeof(table[0]))

const struct annotation *annotations_rows(size_t *count)
{
    *count = COUNT;
    return table;
}

bool annotation_is_prefix(const struct annotation *row)
{
    return row->name[strlen(row->name) - 1] == '.';
}

const struct annotation *annotation_find(const char *name)
{
    for (size_t i = 0; i < COUNT; i++) {
        const char *rest = str_after(name, table[i].name);
        if (rest != NULL && (rest[0] == '\0' || annotation_is_prefix(&table[i])))
            return &table[i];
    }
    return NULL;
}

const char **annotations_unsafe(struct arena *a, size_t *count)
{
    const char **names = ARENA_ARRAY(a, COUNT, const char *);
    *count = 0;
    for (size_t i = 0; i < COUNT; i++)
        if (table[i].power != ANNOTATION_HARMLESS)
            names[(*count)++] = table[i].name;
    return names;
}
