/* See json_memory.h. */
#include "base/json_memory.h"

#include <stdlib.h>

static void *or_leave(struct json_memory *memory, void *p)
{
    if (p == NULL)
        longjmp(memory->is_short, 1);
    return p;
}

static void *json_memory_take(void *memory, size_t size)
{
    return or_leave(memory, malloc(size));
}

static void *take_again(void *memory, void *p, size_t size)
{
    return or_leave(memory, realloc(p, size));
}

static void give_back(void *memory, void *p)
{
    (void)memory;
    free(p);
}

void json_memory_init(struct json_memory *memory)
{
    memory->functions = (yajl_alloc_funcs){json_memory_take, take_again, give_back, memory};
}
