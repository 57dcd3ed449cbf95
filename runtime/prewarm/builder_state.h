/* The state of a builder's process other than its memory. No snapshot holds it and no restore brings it back,
 * so imports that change it make no snapshot. It comes from the kernel, not from the process:
 * /proc/PID/status, limits, cwd (proc(5)), getpriority(2). */
#pragma once

#include <sys/types.h>

struct arena;
struct error;

/* Return in *out the state of a process as lines of text, in the arena. `dir` is its directory
 * (proc_open_process); the kernel tells the nice value by `pid` only. The lines are: working directory, nice
 * value, limits, name, umask, user, groups, bounding set, no_new_privs, filter, CPUs. Capabilities are left
 * out, because the effect of execve on them may not be visible yet. A change of user removes some of them,
 * and is visible here. Return 0 or a negative errno. */
int builder_state_read(struct arena *a, int dir, pid_t pid, const char **out, struct error *err);

/* Check that execve has left the label of the runtime to the process, as a restore does. This is for a start
 * without a label of its own: a policy may have a transition for the interpreter's file. Return 0, or
 * -ENOTSUP with the other label. */
int builder_state_label(int dir, struct error *err);

/* Compare the state of a process with `before`, the result of builder_state_read. Return 0 if it is the same,
 * or -ENOTSUP with the first line that differs, in its current form and printable. Return another negative
 * errno if it cannot be read. The arena is for what is read meanwhile. */
int builder_state_compare(struct arena *a, const char *before, int dir, pid_t pid, struct error *err);
