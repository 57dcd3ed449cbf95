/* What a template's process is beside its memory, which no snapshot holds and no restore gives back: imports
 * that change it make no snapshot. What the kernel says, not the process: /proc/PID/status, limits, cwd
 * (proc(5)), getpriority(2). */
#ifndef PYSBX_PREWARM_BUILDER_STATE_H
#define PYSBX_PREWARM_BUILDER_STATE_H

#include <sys/types.h>

struct arena;
struct error;

/* The state of a process, whose directory is `dir` (proc_open_process), as lines of text, in the arena:
 * working directory, nice value (which the kernel tells by number only), limits, name, umask, user, groups,
 * bounding set, no_new_privs, filter, processors. Capabilities are left out, for what execve makes of them
 * may not be seen yet; of them a change of user takes away. 0 or negative errno. */
int builder_state_read(struct arena *a, int dir, pid_t pid, const char **out, struct error *err);

/* Is the state of a process still what builder_state_read gave? 0 if so; -ENOTSUP with the first line that
 * differs, as it is now and printable; another negative errno when it cannot be read. The arena is for what
 * is read meanwhile. */
int builder_state_compare(struct arena *a, const char *before, int dir, pid_t pid, struct error *err);

#endif
