/* One arena for each command. Everything that the spec and the plan point to lives in it and is freed at
 * once. */
#pragma once

#include <stdarg.h>
#include <stddef.h>

struct arena_block;
struct arena {
    struct arena_block *head;
};

/* Return zeroed memory, aligned for any type and valid until arena_free. Never NULL: if memory runs out, the
 * process prints a message and ends with exit code 1. A plan is complete before side effects begin, so there
 * is usually nothing to undo. */
void *arena_alloc(struct arena *a, size_t size);
/* The same for `count` objects of `size` bytes. The multiplication is checked. */
void *arena_array(struct arena *a, size_t count, size_t size);
/* Return a copy of the string. */
char *arena_strdup(struct arena *a, const char *s);
/* Return a copy of `n` bytes, with a NUL after them. */
char *arena_strndup(struct arena *a, const char *s, size_t n);
/* Return the formatted string. To extend a string in a loop, use base/text.h. */
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Free everything in the arena, which is then empty and may be used again. */
void arena_free(struct arena *a);
#define cleanup_arena __attribute__((cleanup(arena_free)))
/* Overwrite everything in the arena, for a process that must not know it any more. The arena is not used
 * again. */
void arena_wipe(struct arena *a);

#define ARENA_NEW(a, type)          ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, count, type) ((type *)arena_array((a), (count), sizeof(type)))
