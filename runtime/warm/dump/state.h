/* The state of a stopped process except its memory. */
#ifndef PYSBX_WARM_DUMP_STATE_H
#define PYSBX_WARM_DUMP_STATE_H

struct arena;
struct error;
struct snapshot_header;
struct tracee;

/* Refuse state that cannot be restored with -ENOTSUP, by name: a second thread, a child, a pending signal, a
 * timer. */
int dump_state_check(struct tracee *t, struct arena *a, struct error *err);

/* Fill in thread, memory and signals of the header. */
int dump_state_read(struct tracee *t, struct arena *a, struct snapshot_header *out, struct error *err);

#endif
