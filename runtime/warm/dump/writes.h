/* What a process writes to between its restore and its program. */
#ifndef PYSBX_WARM_DUMP_WRITES_H
#define PYSBX_WARM_DUMP_WRITES_H

#include <sys/types.h>

struct arena;
struct snapshot_parts;
struct stat;

/* Note in `parts`, whose areas are complete, the pages that process `pid` has to itself: it was forked from
 * the process that is saved, and has gone on to its program (dump_request.rehearsal). Its number may be
 * another's by now: it has to be in the pid namespace `pid_namespace`; NULL: any. Leaves the table empty when
 * they cannot be had, or are so many that somebody must have meant it. */
void dump_writes(pid_t pid, const struct stat *pid_namespace, struct arena *a, struct snapshot_parts *parts);

/* The same by an open /proc/PID/pagemap. */
void dump_writes_scan(int pagemap, struct arena *a, struct snapshot_parts *parts);

#endif
