/* Functions in place of a C library, whose state the agent must not change. The system call is for x86-64. */
#ifndef PYSBX_WARM_AGENT_SYSTEM_H
#define PYSBX_WARM_AGENT_SYSTEM_H

#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))

/* Make a system call. Returns its result or a negative errno. */
static inline long system_call(long number, long a, long b, long c, long d)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}

/* The same with six arguments. */
static inline long system_call_long(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static inline ptrdiff_t text_length(const char *text)
{
    ptrdiff_t n = 0;
    while (text[n] != '\0')
        n++;
    return n;
}

#endif
