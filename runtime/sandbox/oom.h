/* Score adjustment for the out-of-memory killer: proc_pid_oom_score_adj(5), runtime-spec
 * process.oomScoreAdj. */
#ifndef PYSBX_SANDBOX_OOM_H
#define PYSBX_SANDBOX_OOM_H

#include <sys/types.h>

struct error;
struct spec_process;

/* Write the process' adjustment, if it has one, for pid (0: the caller itself). The child does it while it is
 * dumpable, since afterwards only root may write there, and the parent once more: lowering needs
 * CAP_SYS_RESOURCE in the initial user namespace. For the parent a value that is there already is success. */
int oom_apply(const struct spec_process *process, pid_t pid, struct error *err);

#define OOM_VALUE_SIZE 24

/* For the caller, which is about to clone what cannot do it itself and inherits it. before: what the caller
 * had, for oom_restore; empty when nothing is to be restored. What fails here fails in oom_apply. */
void oom_lend(const struct spec_process *process, char before[static OOM_VALUE_SIZE]);
void oom_restore(const char *before);

#endif
