/* Identify mapped and open files by path and identity, as a restore will look them up: beneath the
 * container's root, without symbolic links. The kernel names files by their real paths (proc(5)), with the
 * exceptions of warm/dump/place.h. No file is read. */
#include "warm/dump/files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "warm/dump/place.h"
#include "warm/dump/request.h"
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

static bool has_code(const struct dump_vmas *vmas, size_t file)
{
    for (size_t i = 0; i < vmas->vma_count; i++)
        if ((vmas->vmas[i].flags & SNAPSHOT_VMA_FILE) != 0 && vmas->vmas[i].file == file &&
            (vmas->vmas[i].prot & PROT_EXEC) != 0)
            return true;
    return false;
}

/* Store the path in *path, and identify the file; NULL if it is not beneath the root, or is `data` in memory.
 * The latter is private to the container: another container does not have it, or another one of its name. */
static int look_up(struct dump_places *places, const struct dump_file *file, bool data, const char **path,
                   struct file_identity *identity, struct error *err)
{
    struct statfs st;
    cleanup_fd int fd = -1;
    int ret = dump_place_find(places, file, path, &fd, err);
    if (ret < 0 || *path == NULL)
        return ret;
    if (data && fstatfs(fd, &st) == 0 && st.f_type == TMPFS_MAGIC) {
        *path = NULL;
        return 0;
    }
    ret = identity_of(fd, identity);
    if (ret < 0)
        return error_set(err, ret, "mapped file '%s'", *path);
    return S_ISREG(identity->mode)
               ? 0
               : error_text(err, -ENOTSUP, "'%s' is mapped and is not a regular file", *path);
}

/* Save what is mapped of a file as memory. A session has no other process that could change a shared part. */
static int take_content(struct dump_vmas *vmas, size_t file, bool of_session, struct error *err)
{
    for (size_t i = 0; i < vmas->vma_count; i++) {
        struct snapshot_vma *a = &vmas->vmas[i];
        if ((a->flags & SNAPSHOT_VMA_FILE) == 0 || a->file != file)
            continue;
        if (of_session)
            a->flags &= ~(uint32_t)SNAPSHOT_VMA_SHARED;
        int ret = dump_vmas_take_content(a, vmas->files[file].name, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

/* Note what is mapped of the base. */
static void note_base(struct arena *a, struct dump_vmas *vmas, size_t file)
{
    vmas->based = ARENA_ARRAY(a, vmas->vma_count, struct dump_base_range);
    for (size_t i = 0; i < vmas->vma_count; i++) {
        const struct snapshot_vma *v = &vmas->vmas[i];
        if ((v->flags & (SNAPSHOT_VMA_FILE | SNAPSHOT_VMA_SHARED)) == SNAPSHOT_VMA_FILE && v->file == file)
            vmas->based[vmas->based_count++] =
                (struct dump_base_range){v->start, v->end, v->offset - v->start};
    }
}

static bool is_same_file(const struct dump_file *a, const struct dump_file *b)
{
    return a->major == b->major && a->minor == b->minor && a->inode == b->inode && str_eq(a->name, b->name);
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

/* Find all files. A file that is not found is saved by its content. The base is no file of the container. */
static int find_all(struct dump_places *places, const struct dump_request *request, struct dump_vmas *vmas,
                    struct found *found, size_t *count, struct error *err)
{
    const bool of_session = request->began == 0;
    *count = 0;
    for (size_t i = 0; i < vmas->file_count; i++) {
        struct found *f = &found[*count];
        bool data = of_session && !has_code(vmas, i);
        bool is_base = request->base != NULL && is_same_file(&request->base->file, &vmas->files[i]);
        int ret = is_base ? 0 : look_up(places, &vmas->files[i], data, &f->path, &f->identity, err);
        bool missing = ret == 0 && (is_base || f->path == NULL);
        if (is_base)
            note_base(places->arena, vmas, i);
        if (missing)
            ret = take_content(vmas, i, of_session, err);
        if (ret < 0)
            return ret;
        f->file = i;
        *count += !missing;
    }
    return 0;
}

int dump_files(const struct tracee *t, const struct dump_request *request, struct dump_vmas *vmas,
               struct arena *a, struct snapshot_parts *parts, struct error *err)
{
    struct dump_places places = {.tracee = t, .root = request->root, .arena = a};
    struct found *found = ARENA_ARRAY(a, vmas->file_count + 1, struct found);
    size_t count;
    int ret = find_all(&places, request, vmas, found, &count, err);
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
