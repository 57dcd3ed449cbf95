/* The launch that restores a snapshot. */
#ifndef PYSBX_PREWARM_RESTORE_LAUNCH_H
#define PYSBX_PREWARM_RESTORE_LAUNCH_H

struct arena;
struct error;
struct prewarm;

/* The store has given the snapshot: let the process begin by restoring it, and divide the check of its files
 * between runtime and child. The child gives up if the snapshot does not fit: it says so (SYNC_COLD), and the
 * program is executed. In mode "require" and of a session that is an error. 0 or a negative errno. */
int restore_launch(struct arena *a, struct prewarm *prewarm, struct error *err);

/* Mode "require", and the program cannot be seen from outside. The child searches for it: if it is missing,
 * that is the error, as at a cold start; if it is there, the reason of the decision is. */
void restore_launch_refuse(struct prewarm *prewarm);

/* Close and free what the decision and the launch hold. */
void restore_launch_release(struct prewarm *prewarm);

#endif
