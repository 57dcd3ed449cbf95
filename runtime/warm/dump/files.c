/* Identify mapped and open files by path and identity, as a restore will look them up: beneath the
 * container's root, without symbolic links. The kernel names files by their real paths (proc(5)), with the
 * exceptions of warm/dump/place.h. No file is read. */
#include "warm/dump/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "warm/dump/place.h"
#include "warm/dump/vmas.h"
#include "warm/file_identity.h"
#include "warm/snapshot/snapshot.h"

static uint32_t put_file(struct snapshot_parts *parts, char *strings, const char *path,
                         const struct file_identity *identity)
{
    size_t size = strlen(path) + 1;
    memcpy(strings + parts->strings_size, path, size);
    parts->files[parts->file_count] =
        (struct snapshot_file){.path = parts->strings_size, .identity = *identity};
    parts->strings_size += size;
    return (uint32_t)parts->file_count++;
}

/* Store the path in *path, and identify the file; NULL if it is not beneath the root. */
static int look_up(struct dump_places *places, const struct dump_file *file, const char **path,
                   struct file_identity *identity, struct error *err)
{
    cleanup_fd int fd = -1;
    int ret = dump_place_find(places, file, path, &fd, err);
    if (ret < 0 || *path == NULL)
        return ret;
    ret = identity_of(fd, identity);
    if (ret < 0)
        return error_set(err, ret, "mapped file '%s'", *path);
    return S_ISREG(identity->mode)
               ? 0
               : error_text(err, -ENOTSUP, "'%s' is mapped and is not a regular file", *path);
}

static int take_content(struct dump_vmas *vmas, size_t file, struct error *err)
{
    for (size_t i = 0; i < vmas->vma_count; i++) {
        struct snapshot_vma *a = &vmas->vmas[i];
        if ((a->flags & SNAPSHOT_VMA_FILE) == 0 || a->file != file)
            continue;
        int ret = dump_vmas_take_content(a, vmas->files[file].name, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

/* A file and the path where a restore finds it; NULL if it was not found. */
struct found {
    const char *path;
    struct file_identity identity;
    size_t file; /* index in dump_vmas.files */
};

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct found *)a)->path, ((const struct found *)b)->path);
}

/* Find all files. A file that is not found is saved by its content. */
static int find_all(struct dump_places *places, struct dump_vmas *vmas, struct found *found, size_t *count,
                    struct error *err)
{
    *count = 0;
    for (size_t i = 0; i < vmas->file_count; i++) {
        struct found *f = &found[*count];
        int ret = look_up(places, &vmas->files[i], &f->path, &f->identity, err);
        bool missing = ret == 0 && f->path == NULL;
        if (missing)
            ret = take_content(vmas, i, err);
        if (ret < 0)
            return ret;
        f->file = i;
        *count += !missing;
    }
    return 0;
}

int dump_files(const struct tracee *t, int root, struct dump_vmas *vmas, struct arena *a,
               struct snapshot_parts *parts, struct error *err)
{
    struct dump_places places = {.tracee = t, .root = root, .arena = a};
    struct found *found = ARENA_ARRAY(a, vmas->file_count + 1, struct found);
    size_t count;
    int ret = find_all(&places, vmas, found, &count, err);
    if (ret < 0)
        return ret;
    if (count > 0) /* the files of a directory together */
        qsort(found, count, sizeof(*found), by_path);
    size_t room = 1;
    for (size_t i = 0; i < count; i++)
        room += strlen(found[i].path) + 1;
    char *strings = arena_alloc(a, room);
    uint32_t *numbers = ARENA_ARRAY(a, vmas->file_count + 1, uint32_t);
    parts->files = ARENA_ARRAY(a, vmas->file_count + 1, struct snapshot_file);
    strings[0] = '\0';
    parts->strings = strings;
    parts->strings_size = 1; /* never empty */
    for (size_t i = 0; i < count; i++)
        numbers[found[i].file] = put_file(parts, strings, found[i].path, &found[i].identity);
    for (size_t i = 0; i < vmas->vma_count; i++) {
        struct snapshot_vma *vma = &vmas->vmas[i];
        if ((vma->flags & SNAPSHOT_VMA_FILE) != 0 && vma->file != SNAPSHOT_FILE_AGENT)
            vma->file = numbers[vma->file];
    }
    return 0;
}

bool dump_files_add(int root, const char *path, const struct file_identity *identity, struct arena *a,
                    struct snapshot_parts *parts, uint32_t *file)
{
    struct file_identity found;
    cleanup_fd int fd = path_open_in_root_nosymlink(root, path, O_PATH, 0);
    if (path[0] != '/' || fd < 0 || identity_of(fd, &found) < 0 || !S_ISREG(found.mode) ||
        !identity_equal(&found, identity))
        return false;
    char *strings = arena_alloc(a, parts->strings_size + strlen(path) + 1);
    struct snapshot_file *files = ARENA_ARRAY(a, parts->file_count + 1, struct snapshot_file);
    memcpy(strings, parts->strings, parts->strings_size);
    memcpy(files, parts->files, parts->file_count * sizeof(*files));
    parts->strings = strings;
    parts->files = files;
    *file = put_file(parts, strings, path, identity);
    return true;
}
