/* Identify mapped and open files by path and identity, as a restore will look them up: beneath the
 * container's root, without symbolic links. The kernel names files by their real paths (proc(5)). No file is
 * read. */
#include "warm/dump/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
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

/* Set *missing if there is no such file beneath the root. */
static int look_up(int root, const char *path, struct file_identity *identity, bool *missing,
                   struct error *err)
{
    cleanup_fd int fd = path_open_in_root_nosymlink(root, path, O_PATH, 0);
    *missing = fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP;
    if (*missing)
        return 0;
    int ret = fd < 0 ? fd : identity_of(fd, identity);
    if (ret < 0)
        return error_set(err, ret, "mapped file '%s'", path);
    return S_ISREG(identity->mode)
               ? 0
               : error_text(err, -ENOTSUP, "'%s' is mapped and is not a regular file", path);
}

static int take_content(struct dump_vmas *vmas, size_t path, struct error *err)
{
    for (size_t i = 0; i < vmas->vma_count; i++) {
        struct snapshot_vma *a = &vmas->vmas[i];
        if ((a->flags & SNAPSHOT_VMA_FILE) == 0 || a->file != path)
            continue;
        int ret = dump_vmas_take_content(a, vmas->paths[path], err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

/* Return the indices of the paths, sorted by path, which keeps the files of a directory together. */
static const size_t *sort(struct arena *a, const struct dump_vmas *vmas)
{
    size_t *order = ARENA_ARRAY(a, vmas->path_count + 1, size_t);
    for (size_t i = 0; i < vmas->path_count; i++) {
        size_t at = i;
        for (; at > 0 && strcmp(vmas->paths[order[at - 1]], vmas->paths[i]) > 0; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return order;
}

int dump_files(int root, struct dump_vmas *vmas, struct arena *a, struct snapshot_parts *parts,
               struct error *err)
{
    size_t room = 1;
    for (size_t i = 0; i < vmas->path_count; i++)
        room += strlen(vmas->paths[i]) + 1;
    char *strings = arena_alloc(a, room);
    uint32_t *places = ARENA_ARRAY(a, vmas->path_count + 1, uint32_t);
    parts->files = ARENA_ARRAY(a, vmas->path_count + 1, struct snapshot_file);
    strings[0] = '\0';
    parts->strings = strings;
    parts->strings_size = 1; /* never empty */
    const size_t *order = sort(a, vmas);
    for (size_t k = 0; k < vmas->path_count; k++) {
        struct file_identity identity;
        bool missing;
        size_t i = order[k];
        int ret = look_up(root, vmas->paths[i], &identity, &missing, err);
        if (ret < 0)
            return ret;
        if (!missing)
            places[i] = put_file(parts, strings, vmas->paths[i], &identity);
        else if ((ret = take_content(vmas, i, err)) < 0)
            return ret;
    }
    for (size_t i = 0; i < vmas->vma_count; i++) {
        struct snapshot_vma *vma = &vmas->vmas[i];
        if ((vma->flags & SNAPSHOT_VMA_FILE) != 0 && vma->file != SNAPSHOT_FILE_AGENT)
            vma->file = places[vma->file];
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
