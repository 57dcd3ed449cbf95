/* Facts for the commands `warm list` and `warm show`, which only print them. This changes nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "container/options.h"
#include "spec/spec.h"

struct arena;
struct error;

/* A snapshot in the caller's store, or a key for which none could be made. All values are in the arena. */
struct shown_item {
    const char *key;
    const char *state;            /* "ready", "stale", "damaged" or "failed" */
    const char *stale, *failed;   /* why it did not fit the last time, or could not be made; or NULL */
    const char *python, *preload; /* version, and modules separated by commas; "" if unknown */
    uint64_t size, uses;          /* bytes; number of starts */
    int64_t built, used;          /* seconds since 1970; used is 0 before the first use */
};

/* List the snapshots, the last used first, then the keys without one. Without `facts`, only keys and reasons
 * are filled in. No store is an empty one. Return 0 or a negative errno. */
int show_list(struct arena *a, bool facts, struct shown_item **items, size_t *count, struct error *err);

/* How the program of a bundle differs from a snapshot. */
struct shown_match {
    /* Of the bundle's program. NULL if it starts cold with any content of the store. */
    const char *key;
    const char *reason; /* why the snapshot does not fit; NULL if it does */
    /* Differences of the keys: "-…" of the snapshot, "+…" of the bundle. */
    struct str_list differences;
};

struct shown_snapshot {
    const char *path;
    const struct shown_item *item; /* NULL: it was removed meanwhile */
    const char *python, *builder;  /* sys.version; version of the runtime */
    int64_t built;                 /* seconds since 1970 */
    size_t files;
    uint64_t prefetched_pages;
    struct str_list modules, key; /* top-level names; lines of the key */
    struct shown_match match;     /* only for a bundle */
};

/* Open the snapshot called `key`. With a bundle in `options`, compare it with the bundle's program; key NULL
 * is that program's own. Things that only the container itself sees, such as files on a tmpfs, count as a
 * difference. Return 0 or a negative errno: the bundle cannot be read, or there is no such snapshot. */
int show_snapshot(struct arena *a, const struct runtime_options *rt, const struct create_options *options,
                  const char *key, struct shown_snapshot *out, struct error *err);
