/* Write the snapshot of a parked interpreter. The runtime looks at it from outside (ptrace(2), /proc):
 * nothing in the template is trusted to describe itself. */
#ifndef PYSBX_WARM_DUMP_H
#define PYSBX_WARM_DUMP_H

#include <stddef.h>
#include <sys/types.h>

struct error;

struct dump_request {
    pid_t pid; /* the parked process, a descendant of the caller, who may trace it (ptrace(2)) */
    int root;  /* descriptor of its root directory: mapped files are opened and identified beneath it */
    /* The path under which the process has mapped the agent, as /proc/PID/maps gives it: the process has to
     * wait in its code, and the image says "agent" for it. */
    const char *agent_path;
    long park;        /* number of the system call in which it waits there */
    const void *meta; /* stored as it is, for warm/manifest.h */
    size_t meta_size;
    int out; /* an empty file, open for reading and writing; the caller syncs and names it */
};

/* 0 or negative errno. -ENOTSUP names what cannot be saved: a second thread, an open descriptor other than 0,
 * 1 and 2, a shared writable mapping, a timer, a child, an executable page that was written to, … The process
 * is waited for, two seconds at most, until it is parked. Afterwards it goes on waiting, and is of no use. */
int warm_dump(const struct dump_request *request, struct error *err);

#endif
