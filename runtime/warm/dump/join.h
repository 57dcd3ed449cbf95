/* Fewer areas and runs of the same memory: each is a system call of every restore. */
#ifndef PYSBX_WARM_DUMP_JOIN_H
#define PYSBX_WARM_DUMP_JOIN_H

#include <stdint.h>

struct dump_vmas;

/* Make one of neighbours, after dump_vmas_scan, in place; `page`: bytes. What is only read of a library and
 * was not written to (its headers, its constants) is mapped as its code is, for it lies before and behind it
 * in the same file. An area of a file that one run is all of becomes an anonymous one, which may be the
 * neighbour of another. A few pages between runs become part of them, and a few zeros at the ends of
 * anonymous memory; but not of the area that ends at `heap_end`, where the kernel calls only memory of no
 * file "[heap]".
 */
void dump_vmas_join(struct dump_vmas *vmas, uint64_t page, uint64_t heap_end);

#endif
