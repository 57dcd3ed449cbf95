/* Warm or cold: the decision about the program of a start, and the snapshot that it takes. */
#ifndef PYSBX_PREWARM_DECIDE_H
#define PYSBX_PREWARM_DECIDE_H

struct arena;
struct error;
struct prewarm;
struct start;

/* 1 when the caller is the host's root. 0 for a user, and for root in a user namespace only (rootless
 * Podman). It says whose snapshots and whose warm.json count. Negative errno with err. */
int prewarm_root_of_host(struct error *err);

/* Decide, and change nothing. *out is NULL for a program that is not called like a Python interpreter; else
 * it lies in the arena, and start->process->launch describes it. 0 or a negative errno: a mistake in an
 * annotation or in warm.json, or a reason in mode "require". */
int prewarm_decide(struct arena *a, const struct start *start, struct prewarm **out, struct error *err);

/* Complete the decision by what the store answers and by the files that can be seen from outside; for `plan`.
 * 0 or a negative errno. */
int prewarm_look(struct arena *a, struct prewarm *prewarm, struct error *err);

/* Take the snapshot, or make it if its time has come. With `session`, continue the one that this file has.
 * Afterwards the launch of the process restores it, or decision.reason says why the start is cold. NULL is
 * allowed. Negative errno in mode "require" only; but if the program cannot be seen from outside, the child
 * fails instead. */
int prewarm_prepare(struct arena *a, const char *session, struct prewarm *prewarm, struct error *err);

/* Make the snapshot now, whatever has been noted. 0 or a negative errno. */
int prewarm_force(struct arena *a, struct prewarm *prewarm, struct error *err);

#endif
