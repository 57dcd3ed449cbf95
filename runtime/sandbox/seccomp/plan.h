/* The plan of a filter. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

struct seccomp_plan {
    const struct sock_filter *filter; /* NULL: no filter */
    size_t count;                     /* instructions, at most BPF_MAXINSNS */
    unsigned flags;                   /* SECCOMP_FILTER_FLAG_…, without NEW_LISTENER */
    bool notify;                      /* an action is SCMP_ACT_NOTIFY: create a listener and send it */
    /* linux.seccomp, or else annotation run.oci.seccomp.receiver; NULL without notify. */
    const char *listener_path, *listener_metadata;
    const char *origin; /* "none", "annotation", "cache" or "compiled" */
};
