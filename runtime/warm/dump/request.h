/* The process to save, and how to save it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "warm/dump/vmas.h"
#include "warm/snapshot/snapshot.h"

struct stat;

/* The snapshot from which the process was restored. A page that is the same in both is left out. */
struct dump_base {
    int fd;
    const struct snapshot *snapshot;
    struct snapshot_base identity;
    struct dump_file file; /* as the process has it mapped */
};

struct dump_request {
    pid_t pid; /* the parked process, which the caller may trace (ptrace(2)) */
    /* The pid namespace of the process, because its number may have been reused; NULL: any. */
    const struct stat *pid_namespace;
    int root; /* descriptor of its root directory: its files are opened and identified beneath it */
    /* When the builder began, in nanoseconds since 1970. Files that it has open for reading are saved unless
     * they have changed since then, because it may have read them before. 0: the process is not a builder.
     * Then only files that are also mapped are saved: other open files of a session may not exist in another
     * container. */
    int64_t began;
    /* The path of the agent in /proc/PID/maps. The process must wait in its code, and the snapshot refers to
     * it as "agent". */
    const char *agent_path;
    long park;      /* number of the system call in which it waits there */
    uint64_t waits; /* what that call has in its sixth argument; 0: anything */
    /* A process that was forked from the same one and has continued to its program. The pages that it has
     * written to are noted, and a restore makes them private at once. 0: none. Unknown pages are left out,
     * and so is a process of another pid namespace. */
    pid_t rehearsal;
    const void *agent; /* the expected content of that mapping; NULL: not compared */
    size_t agent_size;
    uint64_t limit;               /* maximum bytes of pages; 0: any */
    const struct dump_base *base; /* NULL: write all pages */
    bool spare;                   /* the process survives the caller; else it is killed with it */
    const void *meta;             /* stored unchanged, for warm/manifest/manifest.h */
    size_t meta_size;
    int out; /* an empty file, open for reading and writing; the caller syncs and names it */
};
