/* Find mapped files beneath the mounts of a process: proc_pid_maps(5), proc_pid_mountinfo(5),
 * Documentation/filesystems/overlayfs.rst. A file is mapped to be recognized, and not read. */
#include "warm/dump/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/str.h"
#include "warm/content.h"
#include "warm/dump/text.h"
#include "warm/dump/tracee.h"
#include "warm/dump/vmas.h"

#define MAPS_MAX ((size_t)4 << 20) /* bytes of the runtime's own /proc/self/maps */

/* Return whether the kernel shows the VMA at `address` of this process as one of the file. */
static bool is_shown_as(struct arena *a, const void *address, const struct dump_file *file)
{
    char *text, *save = NULL;
    struct dump_vma_line found;
    cleanup_fd int fd = proc_open("self/maps", O_RDONLY, NULL);
    if (fd < 0 || io_read_fd(a, fd, MAPS_MAX, &text, NULL) < 0)
        return false;
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
        if (dump_text_vma(line, &found) && found.start == (uintptr_t)address)
            return dump_vmas_is_of(&found, file);
    return false;
}

/* Most file systems show a mapping with the numbers of stat(2). Not so do btrfs, overlays of several file
 * systems, and overlays of older kernels: there a mapping tells. `fd` is one of O_PATH. */
bool dump_place_is(struct arena *a, int fd, const struct dump_file *file)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return false;
    if (makedev(file->major, file->minor) == st.st_dev && st.st_ino == file->inode)
        return true;
    cleanup_fd int again = S_ISREG(st.st_mode) ? proc_reopen(fd, CONTENT_OPEN) : -1;
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = again >= 0 ? mmap(NULL, size, PROT_NONE, MAP_PRIVATE, again, 0) : MAP_FAILED;
    if (page == MAP_FAILED)
        return false;
    bool same = is_shown_as(a, page, file);
    munmap(page, size);
    return same;
}

/* Read the mount points of overlays. Only their files have other names, and no other file system, which may
 * act or wait when a file is opened, is searched. */
static int read_mounts(struct dump_places *p, struct error *err)
{
    char *text, *save = NULL;
    size_t lines = 0;
    if (p->mounts != NULL)
        return 0;
    int ret = tracee_file(p->tracee, p->arena, "mountinfo", &text, NULL, err);
    if (ret < 0)
        return ret;
    for (const char *s = text; *s != '\0'; s++)
        lines += *s == '\n';
    p->mounts = ARENA_ARRAY(p->arena, lines + 1, const char *);
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        int start = 0, end = 0;
        /* "ID PARENT MAJOR:MINOR ROOT TARGET OPTIONS … - TYPE SOURCE OPTIONS" */
        if (sscanf(line, "%*d %*d %*s %*s %n%*s%n", &start, &end) < 0 || end <= start ||
            strstr(line + end, " - overlay ") == NULL)
            continue;
        line[end] = '\0';
        str_unescape_octal(line + start);
        p->mounts[p->mount_count++] = str_eq(line + start, "/") ? "" : line + start;
    }
    return 0;
}

/* Return whether the file is beneath the mount, at its name without the first `cut` bytes. */
static bool try_below(struct dump_places *p, const char *mount, size_t cut, const struct dump_file *file,
                      const char **path, int *fd)
{
    char *candidate = arena_printf(p->arena, "%s%s", mount, file->name + cut);
    int below = path_open_in_root_nosymlink(p->root, candidate, O_PATH, 0);
    if (below < 0 || !content_is_overlay(below) || !dump_place_is(p->arena, below, file)) {
        fd_close(&below);
        return false;
    }
    *path = candidate;
    *fd = below;
    p->last = mount;
    p->cut = cut;
    return true;
}

/* Try the name, and each shorter end of it, beneath each overlay: a mount may show only a directory of the
 * layer. Files of a volume follow each other, so the place of the last one comes first. */
static int search(struct dump_places *p, const struct dump_file *file, const char **path, int *fd,
                  struct error *err)
{
    int ret = read_mounts(p, err);
    if (ret < 0)
        return ret;
    if (p->last != NULL && p->cut < strlen(file->name) && file->name[p->cut] == '/' &&
        try_below(p, p->last, p->cut, file, path, fd))
        return 0;
    for (size_t i = p->mount_count; i-- > 0;)
        for (const char *rest = file->name; rest != NULL; rest = strchr(rest + 1, '/'))
            if (try_below(p, p->mounts[i], (size_t)(rest - file->name), file, path, fd))
                return 0;
    return 0;
}

int dump_place_find(struct dump_places *p, const struct dump_file *file, const char **path, int *fd,
                    struct error *err)
{
    *path = NULL;
    *fd = path_open_in_root_nosymlink(p->root, file->name, O_PATH, 0);
    if (*fd < 0 && *fd != -ENOENT && *fd != -ENOTDIR && *fd != -ELOOP)
        return error_set(err, *fd, "mapped file '%s'", file->name);
    if (*fd >= 0 && dump_place_is(p->arena, *fd, file)) {
        *path = file->name;
        return 0;
    }
    fd_close(fd);
    return search(p, file, path, fd, err);
}
