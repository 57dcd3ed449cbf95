/* The usual launch (container/launch.h): execute the program. */
#pragma once

#include "container/launch.h"

struct error;
struct process_plan;
struct seccomp_handover;

extern const struct launch launch_execve;

/* Become the program by the launch of the plan. If that launch fails and has a fallback, tell the runtime why
 * (SYNC_COLD over `channel`) and execute the program. Return a negative errno, only on failure. */
int launch_enter(struct process_plan *plan, struct seccomp_handover *handover, const char *program,
                 int channel, struct error *err);
