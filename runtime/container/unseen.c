/* Cloning where processes of a container may be watching. */
#include "container/unseen.h"

#include <sys/prctl.h>

void unseen_begin(struct unseen *unseen, const struct spec_process *process)
{
    oom_lend(process, unseen->oom);
    unseen->dumpable = prctl(PR_GET_DUMPABLE) == 1;
    (void)prctl(PR_SET_DUMPABLE, 0);
}

void unseen_end(const struct unseen *unseen)
{
    if (unseen->dumpable)
        (void)prctl(PR_SET_DUMPABLE, 1);
    oom_restore(unseen->oom);
}
