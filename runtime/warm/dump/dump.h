/* Write the snapshot of a parked interpreter. The runtime looks at it from outside (ptrace(2), /proc): it is
 * not trusted to describe itself. */
#ifndef PYSBX_WARM_DUMP_DUMP_H
#define PYSBX_WARM_DUMP_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "warm/dump/request.h"

struct error;
struct stat;

/* 0 or negative errno. -ENOTSUP names what cannot be saved: a second thread, an open descriptor other than 0,
 * 1 and 2 (but for files that can be opened again: warm/dump/descriptors.h), a shared writable mapping, a
 * timer, a child, an executable page that was written to, …; -EFBIG that it is too large. The process is
 * waited for, two seconds at most, until it is parked. Afterwards it goes on waiting, and is of no use. */
int warm_dump(const struct dump_request *request, struct error *err);

#endif
