/* The few instructions that C cannot express: a system call, the end of a restore. System V ABI for x86-64,
 * appendix A.2.1; signal(7), sigreturn(2). */
#pragma once

#include <stdint.h>

#include "warm/restore/restorer/work.h"

/* These override the compiler's options, because the code is copied and functions that it would call are
 * not. */
#define RESTORER_ALONE  __attribute__((no_stack_protector, no_sanitize("address", "undefined")))
#define RESTORER_INLINE static inline __attribute__((always_inline)) RESTORER_ALONE

RESTORER_INLINE long restorer_syscall(long number, const uint64_t a[6])
{
    long result;
    register uint64_t r10 __asm__("r10");
    register uint64_t r8 __asm__("r8");
    register uint64_t r9 __asm__("r9");
    r10 = a[3];
    r8 = a[4];
    r9 = a[5];
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* Call rt_sigreturn(2) with the stack pointer at the frame. */
RESTORER_INLINE _Noreturn void restorer_return(uint64_t frame)
{
    __asm__ volatile("mov %0, %%rsp\n\t"
                     "mov $15, %%eax\n\t"
                     "syscall\n\t"
                     "ud2"
                     :
                     : "r"(frame)
                     : "memory");
    __builtin_unreachable();
}

/* Leave the current stack for good. */
RESTORER_INLINE _Noreturn void restorer_enter(uint64_t code, uint64_t stack, const struct restorer_work *work)
{
    __asm__ volatile("mov %1, %%rsp\n\t"
                     "call *%0\n\t"
                     "ud2"
                     :
                     : "r"(code), "r"(stack), "D"(work)
                     : "memory");
    __builtin_unreachable();
}
