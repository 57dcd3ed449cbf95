/* Opening the directory of a container, and reading all records of a state root. */
#include "container/lookup.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"

int container_open_record(struct arena *a, const struct runtime_options *rt, const char *id, int *dirfd,
                          struct record *out, struct error *err)
{
    int ret = record_check_id(id, err);
    if (ret < 0)
        return ret;
    cleanup_fd int root = record_open_root(record_root(a, rt->root), false, err);
    if (root == -ENOENT)
        return error_text(err, root, "container '%s' does not exist", id);
    if (root < 0)
        return root;
    cleanup_fd int dir = record_open_dir(root, id, err);
    ret = dir < 0 ? dir : record_read(a, dir, id, out, err);
    if (ret == 0)
        *dirfd = fd_steal(&dir);
    return ret;
}

static int lookup_by_name(const void *a, const void *b)
{
    const struct listed *one = a, *two = b;
    return strcmp(one->record.id, two->record.id);
}

static void list_one(struct arena *a, int root, const char *name, struct listed *items, size_t *count)
{
    struct listed entry = {0};
    struct stat st;
    cleanup_fd int dir = record_open_dir(root, name, NULL);
    if (dir < 0 || fstat(dir, &st) < 0)
        return;
    int ret = record_read(a, dir, name, &entry.record, NULL);
    if (ret == -ENOENT) /* it is being made or removed */
        return;
    if (ret == 0) {
        entry.status = record_status(dir, &entry.record);
    } else {
        entry.record =
            (struct record){.id = arena_strdup(a, name), .bundle = "", .created = "", .owner = st.st_uid};
        entry.status = STATUS_DAMAGED;
    }
    items[(*count)++] = entry;
}

int container_list(struct arena *a, const struct runtime_options *rt, struct listed **items, size_t *count,
                   struct error *err)
{
    *items = NULL;
    *count = 0;
    cleanup_fd int root = record_open_root(record_root(a, rt->root), false, err);
    if (root == -ENOENT)
        return 0;
    return root < 0 ? root : container_list_in(a, root, items, count, err);
}

int container_list_in(struct arena *a, int root, struct listed **items, size_t *count, struct error *err)
{
    struct dirent **names;
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", root);
    int found = scandir(path, &names, NULL, NULL);
    if (found < 0)
        return error_set(err, -errno, "list the state directory");
    *items = ARENA_ARRAY(a, (size_t)found + 1, struct listed);
    *count = 0;
    for (int i = 0; i < found; i++) {
        if (names[i]->d_name[0] != '.')
            list_one(a, root, names[i]->d_name, *items, count);
        free(names[i]);
    }
    free(names);
    qsort(*items, *count, sizeof(**items), lookup_by_name);
    return 0;
}
