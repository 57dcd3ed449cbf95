/* What a restore is asked to do. */
#ifndef PYSBX_WARM_RESTORE_REQUEST_H
#define PYSBX_WARM_RESTORE_REQUEST_H

#include <linux/capability.h>
#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

#include "warm/params.h"

struct snapshot;

/* What remains to be done after the memory was exchanged, by the restorer itself, so that the container's
 * filter need not allow what the restorer does. What comes after the filter is one close(2), if there is a
 * descriptor for errors, prctl(2) PR_SET_DUMPABLE and rt_sigreturn(2); with filter_by_privilege also
 * capset(2), if capabilities are given, write(2) and close(2) for each label. */
struct restore_finish {
    const struct sock_fprog *filter; /* NULL for none */
    unsigned filter_flags;
    const struct __user_cap_data_struct *caps; /* two elements; NULL: leave as they are */
    /* What is written to /proc/self/attr/current, each by one write(2), when nothing is left to do that the
     * new label may forbid; with filter_by_privilege that is after the filter. No text: nothing. */
    struct restore_label {
        int fd;
        const char *text;
    } labels[2];
    bool filter_by_privilege; /* loading it takes CAP_SYS_ADMIN: the capabilities are set after it, which it
                                 must allow then */
    /* Every descriptor from this one on is closed before the filter, and below it those with O_CLOEXEC. */
    unsigned close_from;
};

struct restore_request {
    const struct snapshot *snapshot; /* the snapshot, which snapshot_open has checked */
    int file;                        /* its file, open for reading */
    int root;  /* the container's root: its files are opened beneath it and compared with the image */
    int agent; /* the agent, in a sealed memfd (warm/agent/agent.h) */
    const char *comm;
    char *const *argv, *const *envp;
    enum warm_program program;
    size_t program_index;
    bool prefetch;     /* make the pages of the image's write set private at once */
    bool overlapped;   /* map the snapshot now, if this process has nothing where it belongs */
    int error_message; /* the first word of what is sent when restore_go fails: SYNC_ERROR */
    struct restore_finish finish;
};

#endif
