/* Score adjustment for the out-of-memory killer: proc_pid_oom_score_adj(5), runtime-spec
 * process.oomScoreAdj. */
#pragma once

#include <sys/types.h>

struct error;
struct spec_process;

/* Write the process' adjustment, if it has one, for pid (0: the caller). The child calls it while it is
 * dumpable, because later only root may write there. The parent calls it again, because lowering needs
 * CAP_SYS_RESOURCE in the initial user namespace. For the parent, a value that is already there is success.
 * Return 0 or a negative errno. */
int oom_apply(const struct spec_process *process, pid_t pid, struct error *err);

#define OOM_VALUE_SIZE 24

/* Set the adjustment of the caller before it clones a process that cannot set it but inherits it. before: the
 * caller's own value for oom_restore, or empty if there is nothing to restore. A failure here is not
 * reported, because oom_apply meets it again. */
void oom_lend(const struct spec_process *process, char before[static OOM_VALUE_SIZE]);
/* Restore the value that oom_lend kept in `before`. */
void oom_restore(const char *before);
