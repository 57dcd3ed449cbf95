/* Tables of names and values. One table serves decoding, errors and `features`. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A table ends with an entry whose name is NULL. */
struct name_value {
    const char *name;
    uint64_t value;
};

/* Return the entry with this name, or NULL. */
static inline const struct name_value *names_find(const struct name_value *table, const char *name)
{
    for (; table->name != NULL; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

/* Return the name of the first entry with this value, or NULL. */
static inline const char *names_of(const struct name_value *table, uint64_t value)
{
    for (; table->name != NULL; table++)
        if (table->value == value)
            return table->name;
    return NULL;
}
