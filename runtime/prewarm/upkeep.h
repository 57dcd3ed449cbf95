/* Removing snapshots, and finding damaged ones: `warm prune` and `warm verify`. */
#ifndef PYSBX_PREWARM_UPKEEP_H
#define PYSBX_PREWARM_UPKEEP_H

#include <stdbool.h>
#include <stddef.h>

#include "spec/spec.h"

struct arena;
struct error;
struct store;

struct prune_request {
    bool all;                  /* remove every snapshot */
    struct opt_i64 max_size;   /* bytes to keep, negative: no limit; not set: maxSize of warm.json */
    struct opt_i64 older_than; /* seconds; not set: maxAge of warm.json */
    const char *key;           /* remove only this one; NULL: by the limits */
};

/* Remove snapshots from the caller's store. *removed is their number. Return 0 or a negative errno: -ENOENT
 * if there is none with that key. */
int upkeep_prune(struct arena *a, const struct prune_request *request, size_t *removed, struct error *err);

/* Compare a snapshot with its checksum. Return 0, -ENOENT, or another negative errno if it is damaged. */
int upkeep_verify(struct arena *a, const struct store *store, const char *key, struct error *err);

#endif
