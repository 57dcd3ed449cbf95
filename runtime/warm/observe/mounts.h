/* What a template is told of its mounts (observe.h). */
#ifndef PYSBX_WARM_OBSERVE_MOUNTS_H
#define PYSBX_WARM_OBSERVE_MOUNTS_H

#include <sys/types.h>

struct arena;

/* Make a file in memory of the list `name` ("mounts" or "mountinfo") of a process, without paths of the host
 * and names of its container. Descriptor or negative errno. */
int observe_mounts(struct arena *a, pid_t pid, const char *name);

#endif
