/* What the `warm` commands ask: the store, and how a bundle's program stands to a snapshot. */
#ifndef PYSBX_PREWARM_SHOW_H
#define PYSBX_PREWARM_SHOW_H

#include <stdbool.h>

#include "container/options.h"
#include "spec/spec.h"
#include "warm/manifest/manifest.h"
#include "warm/store/store.h"

struct error;

/* Open the caller's store. 0 or negative errno; -ENOENT when there is none yet. */
int show_store(struct arena *a, struct store *out, struct error *err);

struct warm_match {
    const char *key;    /* of the bundle's program; NULL when it starts cold whatever the store has */
    const char *reason; /* why the snapshot does not fit; NULL when it does */
    struct str_list differences; /* of the keys: "-…" of the snapshot, "+…" of the bundle */
};

/* Open the snapshot called `key`, or the bundle's own when that is NULL, and compare it with the bundle's
 * program. What only the container itself sees, such as files on a tmpfs, counts as a difference. 0 or
 * negative errno: the bundle cannot be read, or there is no such snapshot. */
int show_match(struct arena *a, const struct runtime_options *rt, const struct create_options *options,
               const struct store *store, const char *key, struct store_entry *entry, struct warm_match *out,
               struct error *err);

#endif
