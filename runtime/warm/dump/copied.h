/* The anonymous memory that a restore copies. */
#pragma once

#include <stdbool.h>

struct arena;
struct dump_vmas;
struct error;
struct snapshot_memory;
struct tracee;

/* Mark the anonymous VMAs, and divide those that are only partly in the list of the process (struct
 * warm_memory). `memory`: the place of its heap. `blocks`: large blocks of malloc(3) are shared, too. A
 * process that has no list may be one that only tests park: all its memory is copied. Return 0 or negative
 * errno. */
int dump_copied_mark(const struct tracee *t, const struct snapshot_memory *memory, bool blocks,
                     struct arena *a, struct dump_vmas *vmas, struct error *err);

/* When the pages are known, remove the marks of VMAs without pages. */
void dump_copied_unmark(struct dump_vmas *vmas);

/* Divide extents that are too large for one read. */
void dump_copied_divide(struct arena *a, struct dump_vmas *vmas, unsigned long page);
