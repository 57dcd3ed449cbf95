/* The request for a restore. */
#pragma once

#include <linux/capability.h>
#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

#include "warm/params.h"

struct snapshot;

/* The final steps after the exchange of the memory. The restorer makes them itself, so the container's filter
 * does not have to allow the restorer's calls. After the filter come only one close(2), if there is a
 * descriptor for errors, prctl(2) PR_SET_DUMPABLE and rt_sigreturn(2). With filter_by_privilege there are
 * also capset(2), if capabilities are given, and write(2) and close(2) for each label. */
struct restore_finish {
    const struct sock_fprog *filter; /* NULL for none */
    unsigned filter_flags;
    const struct __user_cap_data_struct *caps; /* two elements; NULL: leave them unchanged */
    /* Texts for /proc/self/attr/current, each written by one write(2), when no step is left that the new
     * label may forbid. With filter_by_privilege that is after the filter. No text: nothing. */
    struct restore_label {
        int fd;
        const char *text;
    } labels[2];
    bool filter_by_privilege; /* loading it needs CAP_SYS_ADMIN: the capabilities are set after it, and it
                                 must allow that */
    /* Before the filter, every descriptor from this one on is closed, and below it those with O_CLOEXEC. */
    unsigned close_from;
};

struct restore_request {
    const struct snapshot *snapshot; /* the snapshot, which snapshot_open has checked */
    int file;                        /* its file, open for reading */
    int base;                        /* the file of its base, if it has one */
    int root;  /* the container's root: its files are opened beneath it and compared with the snapshot */
    int agent; /* the agent, in a sealed memfd (warm/agent/agent.h) */
    const char *comm;
    char *const *argv, *const *envp;
    enum warm_program program;
    size_t program_index;
    bool required;   /* the restored process must not fall back to a cold start */
    bool prefetch;   /* make the pages of the snapshot's write set private at once */
    bool core_dumps; /* also those that only a core dump needs */
    bool overlapped; /* map the snapshot now, if this process has nothing at its addresses */
    /* The process that calls restore_go is a clone which shares the memory of the one that has prepared it
     * (CLONE_VM). The C library has registered nothing for it. */
    bool cloned;
    int error_message; /* the first word of the message that is sent when restore_go fails */
    struct restore_finish finish;
};
