/* A growing string. Outgrown copies stay in the arena. Together they are shorter than the last copy. */
#include "base/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"

#define ROOM_MIN 64

void text_add(struct text *t, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    /* vsnprintf fails beyond INT_MAX bytes. The impossible size then makes arena_alloc end the process. */
    size_t needed = t->length + (n >= 0 ? (size_t)n + 1 : SIZE_MAX / 4);
    if (needed > t->room) {
        t->room = 2 * needed > ROOM_MIN ? 2 * needed : ROOM_MIN;
        char *moved = arena_alloc(t->arena, t->room);
        if (t->length > 0)
            memcpy(moved, t->data, t->length);
        t->data = moved;
    }
    vsnprintf(t->data + t->length, t->room - t->length, fmt, again);
    va_end(again);
    t->length = needed - 1;
}

void text_separate(struct text *t, const char *separator)
{
    if (t->length > 0)
        text_add(t, "%s", separator);
}

const char *text_string(const struct text *t)
{
    return t->data != NULL ? t->data : "";
}
