/* A program that starts warm or cold: the decision, the snapshot that it takes, and the resulting launch
 * (container/launch.h). */
#pragma once

#include <time.h>

#include "container/launch.h"
#include "prewarm/start.h"
#include "warm/decide.h"
#include "warm/root_view.h"
#include "warm/store/store.h"

struct restore;

struct prewarm {
    struct launch launch;
    const struct start *start;
    struct warm_plan decision; /* its `reason` is the one reason for a cold start; NULL: warm */
    const char *store;         /* path */
    /* For a session: the snapshot, without manifest or name. */
    struct store_entry entry;
    bool session; /* the program continues a saved session */
    /* The child receives that snapshot and `base` over a socket, which is `entry.file` until then. */
    bool received;
    int agent; /* the agent in a sealed memfd, -1 when cold */
    int base;  /* the snapshot that has the other pages of the session, -1: none */
    /* The runtime and the child compare files at the same time, and take them from this queue, which they
     * share. NULL: the child compares them alone. */
    struct manifest_queue *queue;
    /* The snapshot was made for other host IDs: the child compares the owners that it sees. */
    bool other_owners;
    /* The runtime compares the files when the caller is about to use the program (run --compare-fd). */
    bool compared_later;
    /* The container's files from outside, without its root. */
    struct root_view view;
    /* The child may map the snapshot before the runtime has the result. */
    bool overlapped;
    bool core_dumps; /* the program's limit allows them */
    /* The following is for the child. */
    struct timespec checked; /* when it last compared the files */
    struct restore *restore; /* begun, or already prepared and mapped, or NULL */
};
