/* exec: run one more process in a running container.
 *
 * One clone is enough: the runtime enters only the pid namespace, which counts for its children. The child is
 * cloned into the container's cgroup and enters the other namespaces. If the container is traceable, the
 * program is cloned late (container/child/late_clone.h). */
#pragma once

#include "container/exec_plan.h"

/* Carry the plan out. Without options->detach wait for the program. *exit_code is then its status, 128+n for
 * a signal. Return 0 or a negative errno. */
int execution_run(struct execution *x, int *exit_code, struct error *err);
