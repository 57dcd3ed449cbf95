/* Write a few instructions to put before a filter. This file makes no system call. */
#include "sandbox/seccomp/stub.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>

/* x32 calls have this bit (asm/unistd.h: __X32_SYSCALL_BIT) under the architecture of x86_64. */
#define X32_BIT 0x40000000U

/* Write the block of one architecture. The accumulator holds the architecture at its start, and also at its
 * end if the architecture is another one. */
static size_t seccomp_stub_add_block(const struct seccomp_stub_limit *limit, struct sock_filter *out)
{
    size_t n = 0;
    unsigned char length = limit->arch == AUDIT_ARCH_X86_64 ? 5 : 4;
    out[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, limit->arch, 0, length);
    out[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    if (limit->arch == AUDIT_ARCH_X86_64)
        out[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 2, 0);
    out[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (uint32_t)limit->highest, 0, 1);
    out[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
    out[n++] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0);
    return n;
}

size_t seccomp_stub(const struct seccomp_stub_limit *limits, size_t count, struct sock_filter *out)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (limits[i].highest < 0)
            continue;
        if (n == 0)
            out[n++] =
                (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
        n += seccomp_stub_add_block(&limits[i], out + n);
    }
    /* The end of a block jumps to the program, over the blocks that follow. */
    for (size_t i = 0; i < n; i++)
        if (out[i].code == (BPF_JMP | BPF_JA))
            out[i].k = (uint32_t)(n - i - 1);
    return n;
}
