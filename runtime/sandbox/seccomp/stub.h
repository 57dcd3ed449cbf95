/* The start of a filter: answer ENOSYS to system calls newer than the profile. */
#pragma once

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

#define SECCOMP_STUB_ARCHS 8
#define SECCOMP_STUB_MAX   (1 + 6 * SECCOMP_STUB_ARCHS)

struct seccomp_stub_limit {
    uint32_t arch; /* AUDIT_ARCH_… */
    int highest;   /* number of the newest system call that is known; -1: none, so skip the architecture */
};

/* Write the instructions to put before the program, at most SECCOMP_STUB_MAX, and return their number. A call
 * without an answer here falls through to the program, which loads again the data that it needs. */
size_t seccomp_stub(const struct seccomp_stub_limit *limits, size_t count, struct sock_filter *out);
