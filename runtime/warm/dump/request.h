/* What is saved, and how. */
#ifndef PYSBX_WARM_DUMP_REQUEST_H
#define PYSBX_WARM_DUMP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct stat;

struct dump_request {
    pid_t pid; /* the parked process, which the caller may trace (ptrace(2)) */
    /* The pid namespace it has to be in, for its number may be another's by now; NULL: any. */
    const struct stat *pid_namespace;
    int root; /* descriptor of its root directory: its files are opened and identified beneath it */
    /* When the template began, in nanoseconds since 1970: files that it has open for reading are saved unless
     * they have changed since then, for it may have read them before. 0: it is none, and only of files that
     * are mapped as well; what a session has open need not be in another container. */
    int64_t began;
    /* The path under which the process has mapped the agent, as /proc/PID/maps gives it: the process has to
     * wait in its code, and the image says "agent" for it. */
    const char *agent_path;
    long park; /* number of the system call in which it waits there */
    /* A process that was forked from the same one and has gone on to its program: the pages that it has
     * written to are noted, for a restore to make them private at once. 0: none; what cannot be learned from
     * it is left out, as is a process of another pid namespace. */
    pid_t rehearsal;
    const void *agent; /* what the process has to have mapped there; NULL: not compared */
    size_t agent_size;
    uint64_t limit;   /* bytes of pages at most; 0: any */
    bool spare;       /* the process lives on if the caller ends; else it is killed with it */
    const void *meta; /* stored as it is, for warm/manifest/manifest.h */
    size_t meta_size;
    int out; /* an empty file, open for reading and writing; the caller syncs and names it */
};

#endif
