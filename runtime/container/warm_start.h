/* Warm start of a container's program: what the warm room needs to know is gathered here, and its answer
 * carried out. The runtime decides, finds the snapshot or makes it; the child verifies it in the container's
 * own root, and becomes it. */
#ifndef PYSBX_CONTAINER_WARM_START_H
#define PYSBX_CONTAINER_WARM_START_H

#include <limits.h>
#include <time.h>

#include "container/lifecycle.h"
#include "container/plan.h"
#include "warm/decide.h"
#include "warm/store/store.h"

struct error;
struct json_out;
struct restore;

struct warm_start {
    struct warm_plan decision;
    const char *reason;     /* cold, and why; NULL: warm */
    const char *store;      /* path */
    struct store_slot slot; /* of a session: the image, and neither manifest nor name */
    bool session;           /* a session is continued (create_options.snapshot) */
    int agent;              /* the agent in a sealed memfd, -1 when cold */
    /* The runtime verifies the files while the child mounts and maps the snapshot, who then helps it, and
     * sends its verdict; NULL: the child does it all. */
    struct manifest_turns *turns;
    bool beside; /* the child may map it before the verdict */
    /* Of the child. */
    struct timespec checked; /* when it was content with the files */
    struct restore *restore; /* begun, or prepared and mapped already, or NULL */
};

/* 1 when the caller is the host's root, 0 for a user, also one who is root in a user namespace only (rootless
 * Podman): whose snapshots and whose warm.json. Negative errno with err. */
int warm_root_of_host(struct error *err);

/* Decide. Changes nothing; the container's plan points to the result. 0 or negative errno: a mistake in an
 * annotation or in warm.json, or a reason in mode "require". */
int warm_start_plan(struct arena *a, const struct runtime_options *rt, struct plan *plan, struct error *err);

/* What the store would answer, for `plan`: fills slot.answer and reason. */
int warm_start_look(struct arena *a, struct warm_start *warm, struct error *err);

/* Find the snapshot, or make it if its time has come. Afterwards plan->process.warm is set, or the start is
 * cold and warm->reason says why. Negative errno in mode "require" only; there a program that is not seen is
 * left to the child, by plan->process.warm_refusal. */
int warm_start_prepare(struct arena *a, const struct runtime_options *rt,
                       const struct create_options *options, struct plan *plan, struct error *err);

/* Make the snapshot of a container's program now, whatever has been noted. */
int warm_start_build(struct arena *a, const struct runtime_options *rt, const struct create_options *options,
                     struct plan *plan, struct error *err);

/* Who verifies the files, and when the child may map the snapshot, by the hooks that it runs: they may change
 * what was looked at, and would be forked from a process that has the snapshot as well. */
void warm_start_divide(struct warm_start *warm, const struct spec_hooks *hooks);

/* Verify the snapshot's files as the container will see them, while its child is busy, and send the verdict
 * over `channel`: SYNC_GO about those that it has looked at, or SYNC_COLD with the reason, and the child
 * looks at all of them itself. Nothing to do when the start is cold. 0 or negative errno. */
int warm_start_verify(struct arena *a, const struct plan *plan, int channel, struct error *err);

void warm_start_release(struct warm_start *warm);

/* The child found that the snapshot does not fit. */
void warm_start_refused(const struct warm_start *warm, const struct error *reason);

void warm_start_describe(const struct warm_start *warm, struct json_out *out);

/* In the child, while it has nothing to do: map of the snapshot what needs no other file, if it may be mapped
 * already. `copy`: this process has its cgroup and its memory policy, and may have pages of its own. NULL:
 * nothing. */
void warm_start_begin(struct warm_start *warm, bool copy);

/* In the child, as the container's user in the container's root. */

/* Is the snapshot true to the files and the environment that the program will find? Maps it first, if that
 * may be, helps the runtime with the files and takes its verdict from `channel`, if there will be one. If
 * not, the runtime is told over `channel` (SYNC_COLD), the memory is given back, and the warm start is taken
 * off the plan; in mode "require" that is an error. */
int warm_start_check(struct process_plan *plan, const char *program, int channel, struct error *err);

/* Become the snapshot. Returns only on failure, with nothing changed but no_new_privs. */
int warm_start_enter(struct process_plan *plan, const char *program, int channel, struct error *err);

#endif
