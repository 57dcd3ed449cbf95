/* The lists of mounts that a builder sees (observe.h). */
#pragma once

#include <sys/types.h>

struct arena;

/* Make a file in memory of the list `name` ("mounts" or "mountinfo") of a process, without paths of the host
 * and names of its container. Return a descriptor or negative errno. */
int observe_mounts(struct arena *a, pid_t pid, const char *name);
