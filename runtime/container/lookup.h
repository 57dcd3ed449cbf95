/* The containers of a state root: one by its name, or all. */
#pragma once

#include <stddef.h>

#include "container/options.h"
#include "container/record.h"

struct arena;
struct error;

/* Open the container's directory and read its record, in the arena. The caller closes *dirfd. Return 0 or a
 * negative errno. */
int container_open_record(struct arena *a, const struct runtime_options *rt, const char *id, int *dirfd,
                          struct record *out, struct error *err);

/* One entry of `list`. */
struct listed {
    struct record record;
    enum status status;
};
/* Return the containers below the state root that have a record in *items, sorted by name, in the arena. Of
 * one whose record cannot be read, name, owner and STATUS_DAMAGED are known. Return 0 or a negative errno. */
int container_list(struct arena *a, const struct runtime_options *rt, struct listed **items, size_t *count,
                   struct error *err);
/* Do the same below a state root that is already open. */
int container_list_in(struct arena *a, int root, struct listed **items, size_t *count, struct error *err);
