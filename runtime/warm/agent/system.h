/* System calls without a C library, for what the agent does while it must not change any of the library's
 * state. x86-64. */
#ifndef PYSBX_WARM_AGENT_SYSTEM_H
#define PYSBX_WARM_AGENT_SYSTEM_H

/* The kernel's answer: a result, or a negative errno. */
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

#endif
