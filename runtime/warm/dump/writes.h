/* The pages that a process writes to between its restore and its program. */
#pragma once

#include <sys/types.h>

struct arena;
struct snapshot_parts;
struct stat;

/* Note in `parts`, whose VMAs are complete, the pages that process `pid` has for itself. It was forked from
 * the saved process and has continued to its program (dump_request.rehearsal). Its number may have been
 * reused, so it must be in the pid namespace `pid_namespace`; NULL: any. Leave the table empty if the pages
 * are unknown, or too many to be an accident. Then add a page of each extent that has none, so that core
 * dumps are complete. */
void dump_writes(pid_t pid, const struct stat *pid_namespace, struct arena *a, struct snapshot_parts *parts);

/* Do the same with an open /proc/PID/pagemap. */
void dump_writes_scan(int pagemap, struct arena *a, struct snapshot_parts *parts);
