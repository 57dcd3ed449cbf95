/* A system call with six arguments, for code without a C library. x86-64 and aarch64. */
#pragma once

/* For code that may use no function, no other registers and no checks of the compiler: it is copied. */
#define SYSTEM_CALL_ALONE                                                                                    \
    __attribute__((no_stack_protector, no_sanitize("address", "undefined"), target("general-regs-only")))

/* Return the result or a negative errno. */
static inline __attribute__((always_inline)) SYSTEM_CALL_ALONE long
system_call_long(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#else /* aarch64 */
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#endif
}
