/* Removing snapshots, and finding damaged ones: `warm prune` and `warm verify`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "spec/spec.h"

struct arena;
struct error;

struct prune_request {
    bool all;                  /* remove every snapshot */
    struct opt_i64 max_size;   /* bytes to keep, negative: no limit; not set: maxSize of warm.json */
    struct opt_i64 older_than; /* seconds; not set: maxAge of warm.json */
    const char *key;           /* remove only this one; NULL: by the limits */
};

/* Remove snapshots from the caller's store. *removed is their number. Return 0 or a negative errno: -ENOENT
 * if there is none with that key. */
int upkeep_prune(struct arena *a, const struct prune_request *request, size_t *removed, struct error *err);

/* Compare a snapshot with its checksum; with key NULL, all of them. Of all, *count is the number, and
 * *damaged has the reasons of those that are damaged. A snapshot that was removed after the list was made is
 * not damaged, and neither is one of another version of the runtime. Return 0 or a negative errno: for one
 * key -ENOENT, or another if it is damaged. */
int upkeep_verify(struct arena *a, const char *key, struct str_list *damaged, size_t *count,
                  struct error *err);
