/* Write the snapshot of a parked interpreter. The runtime examines it from outside (ptrace(2), /proc),
 * because it is not trusted to describe itself. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "warm/dump/request.h"

struct error;
struct stat;

/* Save the process. Return 0 or negative errno. -ENOTSUP names the obstacle: a second thread, a shared
 * writable mapping, a timer, a child, an executable page that was written to, and others. Open descriptors
 * other than 0, 1 and 2 are obstacles too, unless the files can be opened again (warm/dump/descriptors.h).
 * -EFBIG: it is too large. The call waits up to three seconds until the process is parked. Afterwards the
 * process keeps waiting, and is of no further use. */
int warm_dump(const struct dump_request *request, struct error *err);

/* Ask a process that waits in the agent's park() for a fork, which warm_dump can save. It goes on waiting
 * when the fork has ended. Of the request, pid, agent_path, park, waits and agent count. *child: the fork,
 * also after an error, or 0. Return 0 or negative errno; -ENOTSUP names the obstacle. The call waits up to
 * two seconds until the process waits. */
int warm_dump_fork(const struct dump_request *request, pid_t *child, struct error *err);
