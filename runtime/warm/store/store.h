/* Snapshots on disk: one file for each key in a directory owned by the user, 0700. There is no daemon: the
 * process that starts a container finds, builds, counts and removes snapshots. Safe against two builders,
 * kill -9 at any moment and a full disk. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "warm/key.h"
#include "warm/snapshot/snapshot.h"
#include "warm/store/files.h"

struct arena;
struct manifest;
struct warm_config;

/* Return the directory of snapshots: /var/lib/pysbx-runtime/warm for root of the host, else
 * $XDG_DATA_HOME/pysbx-runtime/warm or ~/.local/share/pysbx-runtime/warm. NULL if no such path is known. */
const char *store_path(struct arena *a, bool root_of_host);

/* Open the directory; `create` makes a missing one. It must be owned by the caller and closed to other users
 * (0700). Return 0 or negative errno; -ENOENT without `create` if it does not exist. */
int store_open(const char *path, bool create, struct store *out, struct error *err);
void store_close(struct store *store);

/* Add to the error of a snapshot without space which store it is and what helps. Return its code. */
int store_advise(const char *path, struct error *err);

enum store_answer {
    STORE_COLD,  /* start cold: reason says why */
    STORE_READY, /* a snapshot: file and manifest are filled in */
    STORE_BUILD, /* make it: the lock is held until store_commit, store_fail or store_release */
};

/* The limits of a container that are not part of the key, because a snapshot fits all of them: memory,
 * processes and resource limits. The maker of a snapshot has them too, so imports fail if one is too small.
 */
#define STORE_BOUNDS 8
struct store_bounds {
    uint64_t items[STORE_BOUNDS]; /* UINT64_MAX: no limit */
};

struct store_entry {
    enum store_answer answer;
    const char *reason;   /* cold, or build: why the snapshot is made */
    enum error_kind kind; /* cold: of the reason */
    char name[KEY_NAME_SIZE];
    int file;                   /* ready: open for reading; else -1 */
    struct snapshot mapped;     /* ready: its tables, which the manifest points into */
    struct manifest *manifest;  /* in the arena */
    int lock;                   /* build; else -1 */
    int out;                    /* build: an empty file, open for reading and writing; else -1 */
    struct store_bounds bounds; /* build: what store_fail remembers, if `bounded` */
    bool bounded;
};

struct store_question {
    const struct warm_key *key;
    const struct warm_config *config;
    const struct store_bounds *bounds; /* of the container; NULL: a failure holds for all containers */
    bool bare;                         /* nothing is preloaded: config.second_run counts */
    bool force; /* `warm build`: build unless there is a fresh one, regardless of earlier failures */
    bool look;  /* `plan`, `warm show`: change nothing; STORE_BUILD comes without lock and file */
};

/* The reason of the answer STORE_COLD to a bare key that was never asked for (secondRun in warm.json). */
#define STORE_FIRST_RUN "the first run of a bare interpreter makes no snapshot"

/* Decide what to do about a key. Return 0, or negative errno for a store that cannot be used: then start
 * cold. */
int store_ask(struct arena *a, const struct store *store, const struct store_question *question,
              struct store_entry *entry, struct error *err);

/* Complete the snapshot in entry->out: sync it, give it its name, make room for it. Release the entry. On
 * failure nothing is left. */
int store_commit(const struct store *store, const struct warm_config *config, struct store_entry *entry,
                 struct error *err);

/* Record for config.retry_after that the snapshot could not be made, with the reason. Containers that have a
 * larger limit than all containers for which it failed try again before. Release the entry. */
void store_fail(const struct store *store, struct store_entry *entry, const struct error *reason);

/* Return the reason that store_fail has recorded for a key, in the arena, and its kind in *kind (NULL: not
 * wanted). NULL: there is none. */
const char *store_failure(struct arena *a, const struct store *store, const char *name,
                          enum error_kind *kind);

/* Record that the snapshot did not fit a container. The next process that asks makes it again, but not before
 * it is config.retry_after old. */
void store_mark_stale(const struct store *store, const char *name, const char *reason);

/* Count one use, and remember when. */
void store_count_use(const struct store *store, const char *name);

/* Close descriptors, release a lock and remove unfinished output. */
void store_release(const struct store *store, struct store_entry *entry);

/* One snapshot, as shown by `warm list`. */
struct store_item {
    char name[KEY_NAME_SIZE];
    uint64_t size;       /* bytes */
    int64_t built, used; /* seconds since 1970; used is 0 before the first use */
    int64_t touched;     /* the later of both, in nanoseconds: the order of a list */
    uint64_t uses;
    const char *stale;  /* why it did not fit the last time, or NULL */
    const char *failed; /* why it could not be made; NULL for all snapshots of store_list */
};

/* List all snapshots, the last used first. In the arena. Return 0 or negative errno. */
int store_list(struct arena *a, const struct store *store, struct store_item **items, size_t *count,
               struct error *err);

/* List the keys that have no snapshot because it could not be made: the time, as `built`, and the reason;
 * nothing else is known of them. The latest first. In the arena. Return 0 or negative errno. */
int store_list_failed(struct arena *a, const struct store *store, struct store_item **items, size_t *count,
                      struct error *err);

/* Open a snapshot by its name, regardless of its age: entry->answer is STORE_READY. -ENOENT: there is none,
 * and *err says why if it could not be made; -EUCLEAN and others: it is damaged. `pages` also compares the
 * checksum of its whole content. */
int store_open_item(struct arena *a, const struct store *store, const char *name, bool pages,
                    struct store_entry *entry, struct error *err);

/* Remove a snapshot and all notes about it; containers that run from it are not affected. Return 0 or
 * negative errno: -EBUSY while it is being made. */
int store_remove(const struct store *store, const char *name, struct error *err);

struct store_limits {
    uint32_t max_age;
    uint64_t max_uses, max_size;
    bool all;     /* remove every snapshot */
    bool damaged; /* look for damage, which reads every snapshot completely */
};

/* Remove snapshots that are too old, used too often or damaged. Then remove the least recently used until the
 * rest fits, but never `keep` (NULL for none). Last, remove notes and leftovers that are too old. *removed,
 * if not NULL, counts snapshots. */
int store_prune(struct arena *a, const struct store *store, const struct store_limits *limits,
                const char *keep, size_t *removed, struct error *err);
