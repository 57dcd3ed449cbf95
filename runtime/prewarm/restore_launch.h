/* The launch that restores a snapshot. */
#pragma once

struct arena;
struct error;
struct prewarm;

/* The store has given the snapshot. Let the process begin by restoring it, and divide the check of its files
 * between runtime and child. If the snapshot does not fit, the child reports it (SYNC_COLD), and the program
 * is executed. In mode "require" and for a session that is an error. Return 0 or a negative errno. */
int restore_launch(struct arena *a, struct prewarm *prewarm, struct error *err);

/* Refuse the start in mode "require" if the program cannot be seen from outside. The child searches for it.
 * If it is missing, that is the error, as in a cold start. If it exists, the error is the reason of the
 * decision. */
void restore_launch_refuse(struct prewarm *prewarm);

/* Close and free what the decision and the launch hold. */
void restore_launch_release(struct prewarm *prewarm);
