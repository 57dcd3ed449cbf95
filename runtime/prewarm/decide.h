/* Warm or cold: the decision about the program of a start, and the snapshot that it takes. */
#pragma once

struct arena;
struct error;
struct prewarm;
struct start;
struct store;

/* Return 1 if the caller is the host's root. Return 0 for a user, and for root in a user namespace only
 * (rootless Podman). The result decides whose snapshots and whose warm.json are used. After a failure return
 * a negative errno with err. */
int prewarm_root_of_host(struct error *err);

/* Open the caller's store, which the caller closes with store_close. Return 0 or a negative errno; -ENOENT if
 * there is none yet. */
int prewarm_open_store(struct arena *a, struct store *out, struct error *err);

/* Decide, and change nothing. *out is NULL if the program's name is not that of a Python interpreter.
 * Otherwise it lives in the arena, and start->process->launch describes it. Return 0 or a negative errno.
 * Errors are a mistake in an annotation or in warm.json, and any reason in mode "require". */
int prewarm_decide(struct arena *a, const struct start *start, struct prewarm **out, struct error *err);

/* Complete the decision with the answer of the store and with the files that can be seen from outside, for
 * `plan`. Return 0 or a negative errno. */
int prewarm_look(struct arena *a, struct prewarm *prewarm, struct error *err);

/* Where a session is that a program continues. */
struct session_source {
    const char *path, *base; /* the snapshot, and the one that it refers to or NULL */
    int socket;              /* if `path` is NULL: both come later as descriptors (session_receive) */
};

/* Take the snapshot, or build it if its time has come. With `session`, not NULL, continue that session.
 * Afterwards the launch of the process restores the snapshot, or decision.reason tells why the start is cold.
 * `prewarm` may be NULL. Return 0, or in mode "require" a negative errno. If the program cannot be seen from
 * outside, the child fails instead. A session that cannot be continued is an error in every mode. */
int prewarm_prepare(struct arena *a, const struct session_source *session, struct prewarm *prewarm,
                    struct error *err);

/* Build the snapshot now, regardless of the store's records about this program. Return 0 or a negative
 * errno. */
int prewarm_force(struct arena *a, struct prewarm *prewarm, struct error *err);
