/* Reduce the VMAs and extents of the same memory: each is a system call of every restore. */
#pragma once

#include <stdint.h>

struct dump_vmas;

/* Join neighbours in place, after dump_vmas_scan; `page`: bytes. Parts of a library that are only read and
 * were not written to (its headers, its constants) are mapped like its code, because they surround it in the
 * same file. A VMA of a file that one extent covers becomes anonymous, so it may join its neighbour. A few
 * pages between extents become part of them, and so do a few zeros at the ends of anonymous memory. The VMA
 * that ends at `heap_end` is excluded: there the kernel names only anonymous memory "[heap]". */
void dump_vmas_join(struct dump_vmas *vmas, uint64_t page, uint64_t heap_end);
