/* The state of a stopped process except its memory. */
#pragma once

#include <stdbool.h>

struct arena;
struct error;
struct snapshot_header;
struct tracee;

/* Refuse state that cannot be restored with -ENOTSUP, by name: a child, a pending signal, a timer. With
 * `alone` also a second thread and an interval timer. That makes the process call the kernel, so the process
 * is of no further use if the caller is killed meanwhile. */
int dump_state_check(struct tracee *t, struct arena *a, bool alone, struct error *err);

/* Fill in thread, memory and signals of the header. */
int dump_state_read(struct tracee *t, struct arena *a, struct snapshot_header *out, struct error *err);
