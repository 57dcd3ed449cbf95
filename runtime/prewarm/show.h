/* The look-ups of the `warm` commands: the store, and how a bundle's program differs from a snapshot. */
#ifndef PYSBX_PREWARM_SHOW_H
#define PYSBX_PREWARM_SHOW_H

#include <stdbool.h>

#include "container/options.h"
#include "spec/spec.h"
#include "warm/manifest/manifest.h"
#include "warm/store/store.h"

struct error;

/* Open the caller's store. Return 0 or a negative errno; -ENOENT if there is none yet. */
int show_store(struct arena *a, struct store *out, struct error *err);

struct warm_match {
    /* Of the bundle's program. NULL if it starts cold with any content of the store. */
    const char *key;
    const char *reason; /* why the snapshot does not fit; NULL if it does */
    /* Differences of the keys: "-…" of the snapshot, "+…" of the bundle. */
    struct str_list differences;
};

/* Open the snapshot called `key`, or the bundle's own if that is NULL, and compare it with the bundle's
 * program. Things that only the container itself sees, such as files on a tmpfs, count as a difference.
 * Return 0 or a negative errno: the bundle cannot be read, or there is no such snapshot. */
int show_match(struct arena *a, const struct runtime_options *rt, const struct create_options *options,
               const struct store *store, const char *key, struct store_entry *entry, struct warm_match *out,
               struct error *err);

#endif
