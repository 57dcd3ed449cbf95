/* Applying the limits of warm.json and of the command line to the store. */
#include "prewarm/upkeep.h"

#include <errno.h>
#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "prewarm/decide.h"
#include "warm/config.h"
#include "warm/store/files.h"
#include "warm/store/store.h"

static int limits_of(struct arena *a, const struct prune_request *prune, struct store_limits *out,
                     struct error *err)
{
    struct warm_config config;
    int root_of_host = prewarm_root_of_host(err);
    int ret = root_of_host < 0 ? root_of_host : warm_config_read(a, NULL, root_of_host, &config, err);
    if (ret < 0)
        return ret;
    *out = (struct store_limits){.max_age = config.max_age,
                                 .max_uses = config.max_uses,
                                 .max_size = config.max_size,
                                 .all = prune->all,
                                 .damaged = true};
    if (prune->older_than.set) {
        if (prune->older_than.value < 0 || prune->older_than.value > UINT32_MAX)
            return error_text(err, -EINVAL, "--older-than: '%" PRId64 "' is no number of seconds",
                              prune->older_than.value);
        out->max_age = (uint32_t)prune->older_than.value;
    }
    if (prune->max_size.set)
        out->max_size = prune->max_size.value < 0 ? UINT64_MAX : (uint64_t)prune->max_size.value;
    return 0;
}

static int remove_one(const struct store *store, const char *key, struct error *err)
{
    char name[KEY_NAME_SIZE];
    enum store_file file;
    struct stat st;
    if (!store_file_parse(key, name, &file) || file != STORE_SNAPSHOT ||
        !(store_file_stat(store, key, STORE_SNAPSHOT, &st) || store_file_stat(store, key, STORE_FAILED, &st)))
        return error_text(err, -ENOENT, "there is no snapshot '%s'", key);
    return store_remove(store, key, err);
}

static int verify_one(struct arena *a, const struct store *store, const char *key, struct error *err)
{
    struct store_entry entry;
    int ret = store_open_item(a, store, key, true, &entry, err);
    if (ret == 0)
        store_release(store, &entry);
    return ret;
}

static int upkeep_verify_all(struct arena *a, const struct store *store, struct str_list *damaged,
                             size_t *count, struct error *err)
{
    struct store_item *items;
    int ret = store_list(a, store, &items, count, err);
    if (ret < 0)
        return ret;
    damaged->items = ARENA_ARRAY(a, *count + 1, const char *);
    for (size_t i = 0; i < *count; i++) {
        struct error reason = {0};
        int found = verify_one(a, store, items[i].name, &reason);
        if (found != 0 && found != -ENOENT && found != -ENOTSUP)
            damaged->items[damaged->count++] = arena_strdup(a, reason.text);
    }
    return 0;
}

int upkeep_verify(struct arena *a, const char *key, struct str_list *damaged, size_t *count,
                  struct error *err)
{
    struct store store;
    *damaged = (struct str_list){0};
    *count = 0;
    int ret = prewarm_open_store(a, &store, err);
    if (ret < 0)
        return ret == -ENOENT && key == NULL ? 0 : ret;
    ret = key != NULL ? verify_one(a, &store, key, err) : upkeep_verify_all(a, &store, damaged, count, err);
    store_close(&store);
    return ret;
}

int upkeep_prune(struct arena *a, const struct prune_request *request, size_t *removed, struct error *err)
{
    struct store_limits limits;
    struct store store;
    *removed = 0;
    int ret = limits_of(a, request, &limits, err);
    if (ret < 0)
        return ret;
    ret = prewarm_open_store(a, &store, err);
    if (ret == -ENOENT)
        return request->key == NULL ? 0 : error_text(err, -ENOENT, "there is no snapshot '%s'", request->key);
    if (ret < 0)
        return ret;
    if (request->key != NULL) {
        ret = remove_one(&store, request->key, err);
        *removed = ret == 0;
    } else {
        ret = store_prune(a, &store, &limits, NULL, removed, err);
    }
    store_close(&store);
    return ret;
}
