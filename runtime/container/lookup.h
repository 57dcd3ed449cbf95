/* The containers of a state root: one by its name, or all. */
#ifndef PYSBX_CONTAINER_LOOKUP_H
#define PYSBX_CONTAINER_LOOKUP_H

#include <stddef.h>

#include "container/options.h"
#include "container/record.h"

struct arena;
struct error;

/* Open the container's directory and read its record (in the arena); *dirfd is the caller's to close. */
int container_open_record(struct arena *a, const struct runtime_options *rt, const char *id, int *dirfd,
                          struct record *out, struct error *err);

/* One entry of `list`. */
struct listed {
    struct record record;
    enum status status;
};
/* All containers below the state root, by name; unreadable records are left out. *items in the arena. */
int container_list(struct arena *a, const struct runtime_options *rt, struct listed **items, size_t *count,
                   struct error *err);
/* The same below a state root that is open. */
int container_list_in(struct arena *a, int root, struct listed **items, size_t *count, struct error *err);

#endif
