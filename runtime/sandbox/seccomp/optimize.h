/* A seccomp program made small: system call numbers with the same answer become ranges under a binary search.
 * The kernel walks a program for every number when it is loaded and compiles it to machine code: loading
 * Podman's default profile takes 0.75 ms as libseccomp writes it, 0.28 ms as its binary tree, 0.13 ms so. */
#ifndef PYSBX_SANDBOX_SECCOMP_OPTIMIZE_H
#define PYSBX_SANDBOX_SECCOMP_OPTIMIZE_H

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

/* Replace *filter (count instructions) by an equivalent shorter one in the arena; archs are the AUDIT_ARCH_…
 * that it tells apart. A program with instructions that are not understood here, or one that would not
 * become shorter, is left as it is. Pure. */
void seccomp_optimize(struct arena *a, const uint32_t *archs, size_t arch_count,
                      const struct sock_filter **filter, size_t *count);

#endif
