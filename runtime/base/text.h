/* A string in an arena that grows at its end. Its room doubles, so that a loop of additions takes linear
 * time. */
#pragma once

#include <stddef.h>

struct arena;

/* `struct text t = {.arena = a};` is the empty string. The other members belong to text.c. */
struct text {
    struct arena *arena;
    char *data;
    size_t length, room;
};

/* Append formatted text. No argument may point into the text itself. Cannot fail: see arena_alloc. */
void text_add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Append `separator`, unless the text is empty: for a list, before each of its items. */
void text_separate(struct text *t, const char *separator);

/* Return the string, never NULL. It belongs to the arena. Later additions may change it or leave it behind.
 * */
const char *text_string(const struct text *t);
