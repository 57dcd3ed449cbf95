/* Functions in place of a C library, whose state the agent must not change. */
#pragma once

#include <stddef.h>

#include "base/system_call.h"

#define EXPORTED __attribute__((visibility("default")))

/* Make a system call. Returns its result or a negative errno. */
static inline long system_call(long number, long a, long b, long c, long d)
{
    return system_call_long(number, a, b, c, d, 0, 0);
}

static inline ptrdiff_t text_length(const char *text)
{
    ptrdiff_t n = 0;
    while (text[n] != '\0')
        n++;
    return n;
}
