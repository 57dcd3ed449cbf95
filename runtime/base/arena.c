/* A bump allocator over a list of blocks. */
#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Larger than malloc's threshold for mmap(2). The kernel provides zero pages of such a block when they are
 * touched, whereas calloc(3) clears, and so touches, a smaller block at once. One block holds the spec and
 * plan of a usual container. */
#define BLOCK_SIZE ((size_t)256 * 1024)
#define ALIGNMENT  _Alignof(max_align_t)

struct arena_block {
    struct arena_block *next;
    size_t used, size;
    _Alignas(max_align_t) unsigned char data[];
};

static _Noreturn void out_of_memory(void)
{
    static const char text[] = "pysbx-runtime: out of memory\n";
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(1);
}

static struct arena_block *arena_add_block(struct arena *a, size_t size)
{
    struct arena_block *b = calloc(1, sizeof(*b) + size);
    if (b == NULL)
        out_of_memory();
    b->size = size;
    /* A block for one large object goes behind the head, so that the free rest of the head stays usable. */
    if (a->head != NULL && size > BLOCK_SIZE) {
        b->next = a->head->next;
        a->head->next = b;
    } else {
        b->next = a->head;
        a->head = b;
    }
    return b;
}

void *arena_alloc(struct arena *a, size_t size)
{
    if (size > SIZE_MAX - ALIGNMENT - sizeof(struct arena_block))
        out_of_memory();
    size = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    struct arena_block *b = a->head;
    if (b == NULL || b->size - b->used < size)
        b = arena_add_block(a, size > BLOCK_SIZE ? size : BLOCK_SIZE);
    void *p = b->data + b->used;
    b->used += size;
    return p;
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        out_of_memory();
    return arena_alloc(a, total);
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    char *p = arena_alloc(a, n + 1);
    memcpy(p, s, n);
    return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        out_of_memory();
    char *p = arena_alloc(a, (size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

void arena_wipe(struct arena *a)
{
    for (struct arena_block *b = a->head; b != NULL; b = b->next)
        explicit_bzero(b->data, b->used);
}

void arena_free(struct arena *a)
{
    for (struct arena_block *b = a->head, *next; b != NULL; b = next) {
        next = b->next;
        free(b);
    }
    a->head = NULL;
}
