/* Cloning where processes of a container may be watching: PR_SET_DUMPABLE(2const), ptrace(2). */
#ifndef PYSBX_CONTAINER_UNSEEN_H
#define PYSBX_CONTAINER_UNSEEN_H

#include <stdbool.h>

#include "sandbox/oom.h"

struct spec_process;

struct unseen {
    bool dumpable; /* the runtime was, and is to be again */
    char oom[OOM_VALUE_SIZE];
};

/* What is cloned between these two can be traced and read by nobody, from its first instant on, who has not
 * the right to do so in the user namespace that the runtime was executed in: a clone is as dumpable as who
 * makes it. Needed for a process that is born into a pid namespace that others live in, with the rights of
 * their user namespace; it still has the host's root then. Only root may write to the /proc files of such a
 * process, so it inherits process.oomScoreAdj. */
void unseen_begin(struct unseen *unseen, const struct spec_process *process);
/* For the runtime; the clone stays as it is. */
void unseen_end(const struct unseen *unseen);

#endif
