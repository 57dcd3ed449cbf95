/* List the store and decide what must be removed. A snapshot is removed under its lock, so an unfinished one
 * of another process stays. Processes that run from a snapshot keep their mappings. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "warm/store/files.h"
#include "warm/store/store.h"

/* List the names in the directory, in the arena. */
static int list_names(struct arena *a, const struct store *store, const char ***names, size_t *count,
                      struct error *err)
{
    int copy = openat(store->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (dir == NULL) {
        int reason = -errno;
        fd_close(&copy);
        return error_set(err, reason, "list '%s'", store->path);
    }
    size_t room = 64;
    *names = ARENA_ARRAY(a, room, const char *);
    *count = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
            continue;
        if (*count == room) {
            const char **larger = ARENA_ARRAY(a, 2 * room, const char *);
            memcpy(larger, *names, room * sizeof(*larger));
            *names = larger;
            room *= 2;
        }
        (*names)[(*count)++] = arena_strdup(a, entry->d_name);
    }
    closedir(dir);
    return 0;
}

static int by_last_use(const void *a, const void *b)
{
    const struct store_item *x = a, *y = b;
    return x->touched != y->touched ? (x->touched < y->touched ? 1 : -1) : strcmp(x->name, y->name);
}

static int64_t nanoseconds(const struct stat *st)
{
    return st->st_mtim.tv_sec * (int64_t)1000000000 + st->st_mtim.tv_nsec;
}

static void describe_snapshot(struct arena *a, const struct store *store, struct store_item *item,
                              const struct stat *snapshot)
{
    struct stat st;
    item->size = (uint64_t)snapshot->st_size;
    if (store_file_stat(store, item->name, STORE_USES, &st)) {
        item->uses = (uint64_t)st.st_size;
        item->used = st.st_mtim.tv_sec;
        if (nanoseconds(&st) > item->touched)
            item->touched = nanoseconds(&st);
    }
    item->stale = store_file_text(a, store, item->name, STORE_STALE);
}

/* List the keys that have a file of that kind: STORE_SNAPSHOT, or STORE_FAILED and no snapshot. */
static int list_items(struct arena *a, const struct store *store, enum store_file kind,
                      struct store_item **items, size_t *count, struct error *err)
{
    const char **names;
    size_t all;
    int ret = list_names(a, store, &names, &all, err);
    if (ret < 0)
        return ret;
    *items = ARENA_ARRAY(a, all + 1, struct store_item);
    *count = 0;
    for (size_t i = 0; i < all; i++) {
        struct store_item *item = &(*items)[*count];
        enum store_file file;
        struct stat st;
        if (!store_file_parse(names[i], item->name, &file) || file != kind ||
            (kind == STORE_FAILED && store_file_stat(store, item->name, STORE_SNAPSHOT, &st)) ||
            !store_file_stat(store, item->name, kind, &st))
            continue;
        item->built = st.st_mtim.tv_sec;
        item->touched = nanoseconds(&st);
        if (kind == STORE_SNAPSHOT)
            describe_snapshot(a, store, item, &st);
        else
            item->failed = store_failure(a, store, item->name, NULL);
        ++*count;
    }
    qsort(*items, *count, sizeof(**items), by_last_use);
    return 0;
}

int store_list(struct arena *a, const struct store *store, struct store_item **items, size_t *count,
               struct error *err)
{
    return list_items(a, store, STORE_SNAPSHOT, items, count, err);
}

int store_list_failed(struct arena *a, const struct store *store, struct store_item **items, size_t *count,
                      struct error *err)
{
    int ret = list_items(a, store, STORE_FAILED, items, count, err);
    if (ret < 0)
        return ret;
    for (size_t i = 0; i < *count; i++) {
        struct store_item *item = &(*items)[i];
        if (item->failed == NULL || item->failed[0] == '\0')
            item->failed = "no reason is recorded";
    }
    return 0;
}

int store_remove(const struct store *store, const char *name, struct error *err)
{
    cleanup_fd int lock = store_lock(store, name, false);
    if (lock == -EAGAIN)
        return error_text(err, -EBUSY, "snapshot '%s' is being made", name);
    if (lock < 0)
        return error_set(err, lock, "lock snapshot '%s' in '%s'", name, store->path);
    int ret = 0;
    char file[STORE_FILE_NAME_SIZE];
    for (size_t i = 0; i < STORE_FILES; i++)
        if (i != STORE_LOCK && unlinkat(store->dir, store_file_name(name, (enum store_file)i, file), 0) < 0 &&
            errno != ENOENT)
            ret = -errno;
    store_unlock(store, name, &lock);
    return ret < 0 ? error_set(err, ret, "remove snapshot '%s' from '%s'", name, store->path) : 0;
}

/* Return whether the snapshot is damaged or of another version. `pages` also compares the checksum, when
 * `warm verify` has said that damaged snapshots are removed. */
static bool is_damaged(const struct store *store, const char *name, bool pages)
{
    cleanup_arena struct arena a = {0};
    struct store_entry entry;
    struct error reason = {0};
    int ret = store_open_item(&a, store, name, pages, &entry, &reason);
    if (ret == 0)
        store_release(store, &entry);
    return ret == -EUCLEAN || (pages && ret < 0 && ret != -ENOENT);
}

static bool must_go(const struct store *store, const struct store_limits *limits,
                    const struct store_item *item)
{
    int64_t old = (int64_t)time(NULL) - item->built;
    return limits->all || old < 0 || old > limits->max_age || item->uses >= limits->max_uses ||
           is_damaged(store, item->name, limits->damaged);
}

/* Remove the output of a killed builder: its lock is free. Notes of the key stay. */
static void remove_unfinished(const struct store *store, const char *key)
{
    cleanup_fd int lock = store_lock(store, key, false);
    if (lock < 0)
        return;
    store_file_remove(store, key, STORE_NEW);
    store_unlock(store, key, &lock);
}

/* Remove notes of keys without a snapshot, and files of killed builders and other versions, once they are too
 * old. */
static void remove_leftovers(struct arena *a, const struct store *store, const struct store_limits *limits)
{
    const char **names;
    size_t count;
    struct error ignored = {0};
    if (list_names(a, store, &names, &count, &ignored) < 0)
        return;
    for (size_t i = 0; i < count; i++) {
        char key[KEY_NAME_SIZE];
        enum store_file file;
        struct stat st;
        bool ours = store_file_parse(names[i], key, &file);
        if (str_eq(names[i], STORE_FORMAT_FILE))
            continue;
        if (ours && (file == STORE_NEW || file == STORE_LOCK))
            remove_unfinished(store, key);
        if (fstatat(store->dir, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISDIR(st.st_mode) ||
            (!limits->all && time(NULL) - st.st_mtim.tv_sec <= (time_t)limits->max_age))
            continue;
        if (ours && (file == STORE_SNAPSHOT || store_file_stat(store, key, STORE_SNAPSHOT, &st)))
            continue;
        if (ours)
            (void)store_remove(store, key, &ignored);
        else
            (void)unlinkat(store->dir, names[i], 0);
    }
}

int store_prune(struct arena *a, const struct store *store, const struct store_limits *limits,
                const char *keep, size_t *removed, struct error *err)
{
    struct store_item *items;
    size_t count, gone = 0;
    uint64_t size = 0;
    int ret = store_list(a, store, &items, &count, err);
    if (ret < 0)
        return ret;
    struct error first = {0};
    for (size_t i = 0; i < count; i++)
        if (str_eq(items[i].name, keep))
            size = items[i].size;
    for (size_t i = 0; i < count; i++) { /* the one used last comes first */
        struct error reason = {0};
        if (str_eq(items[i].name, keep))
            continue;
        bool kept = !must_go(store, limits, &items[i]) && size + items[i].size <= limits->max_size;
        if (!kept && store_remove(store, items[i].name, &reason) == 0) {
            gone++;
            continue;
        }
        size += items[i].size;
        if (!kept && reason.code != -EBUSY && first.code == 0)
            first = reason;
    }
    remove_leftovers(a, store, limits);
    if (removed != NULL)
        *removed = gone;
    if (first.code < 0) {
        *err = first;
        return first.code;
    }
    return 0;
}
