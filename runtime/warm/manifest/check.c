/* Check for modules that a program would have found next to itself. A snapshot has imported its modules
 * before the program's own directory, the first of sys.path, was known. If that directory contains a file of
 * the same name, the snapshot does not fit, unless it is the file that was imported. Archives are read like
 * zipimport does (APPNOTE.TXT of the zip format, 4.3). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "warm/command_line.h"
#include "warm/manifest/format.h"
#include "warm/manifest/manifest.h"
#include "warm/root_view.h"

#define ARCHIVE_ENTRIES_MAX 10000
#define ARCHIVE_END_SIZE    ((size_t)22)
#define ARCHIVE_COMMENT_MAX ((size_t)65535)
#define ARCHIVE_ENTRY_SIZE  ((size_t)46)

static bool is_module(const struct manifest *m, const char *name, size_t length)
{
    uint32_t low = 0, high = m->header->module_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const char *module = m->strings + m->modules[middle];
        int order = strncmp(name, module, length);
        if (order == 0 && module[length] == '\0')
            return true;
        if (order < 0 || (order == 0 && module[length] != '\0'))
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

/* Return whether an import of a module of the snapshot could take this file. Extension modules carry tags:
 * "name.cpython-311-….so". A directory counts with or without __init__.py. */
static bool is_shadow(const struct manifest *m, const char *name, size_t length, bool regular)
{
    const char *dot = memchr(name, '.', length);
    size_t stem = dot != NULL ? (size_t)(dot - name) : length;
    size_t rest = length - stem;
    if (dot == NULL
            ? regular
            : !(rest == 3 && memcmp(dot, ".py", 3) == 0) && !(rest == 4 && memcmp(dot, ".pyc", 4) == 0) &&
                  !(rest >= 3 && memcmp(name + length - 3, ".so", 3) == 0))
        return false;
    return is_module(m, name, stem);
}

/* Not -ESTALE: the snapshot still fits programs in other directories. */
#define IN_THE_WAY (-EEXIST)

static int shadowed(const char *place, const char *name, size_t length, struct error *err)
{
    return error_text(err, IN_THE_WAY, "'%s%s%.*s' shadows a module of the snapshot", place,
                      str_eq(place, "/") ? "" : "/", (int)length, name);
}

/* A namespace package consists of all directories of its name, in the order of the path. */
static bool is_package(const struct manifest *m, const struct manifest_group *g)
{
    for (uint32_t i = g->first; i < g->first + g->count; i++)
        if (m->entries[i].identity.mode != 0 &&
            str_after(m->strings + m->entries[i].name, "__init__.") != NULL)
            return true;
    return false;
}

/* Return whether the snapshot has imported this very file or package, rather than one after it. The identity
 * of a file or package that the snapshot depends on was or will be verified. */
static bool is_own(const struct manifest *m, const char *place, const char *name)
{
    for (uint32_t i = 0; i < m->header->group_count; i++) {
        const struct manifest_group *g = &m->groups[i];
        const char *path = m->strings + g->path, *rest = str_after(path, place);
        if (rest == NULL || (g->flags & GROUP_ABSENT) != 0)
            continue;
        if (*rest == '/' && str_eq(rest + 1, name) && (!S_ISDIR(g->identity.mode) || is_package(m, g)))
            return true;
        for (uint32_t k = g->first; *rest == '\0' && k < g->first + g->count; k++)
            if (m->entries[k].identity.mode != 0 && str_eq(m->strings + m->entries[k].name, name))
                return true;
    }
    return false;
}

/* On 64-bit machines struct dirent is the structure that getdents64(2) writes, and musl has no dirent64 since
 * 1.2.4. */
_Static_assert(sizeof(((struct dirent *)NULL)->d_ino) == 8 && sizeof(((struct dirent *)NULL)->d_off) == 8 &&
                   offsetof(struct dirent, d_reclen) == 16 && offsetof(struct dirent, d_name) == 19,
               "struct dirent is not linux_dirent64");

static int check_directory(const struct manifest *m, int dir, const char *place, struct error *err)
{
    union {
        char bytes[32768];
        uint64_t align;
    } buffer;
    for (;;) {
        long n = syscall(SYS_getdents64, dir, buffer.bytes, sizeof(buffer.bytes));
        if (n < 0)
            return error_set(err, -errno, "list '%s'", place);
        if (n == 0)
            return 0;
        for (long at = 0; at < n;) {
            const struct dirent *entry = (const struct dirent *)(const void *)(buffer.bytes + at);
            size_t length = strlen(entry->d_name);
            if (is_shadow(m, entry->d_name, length, entry->d_type == DT_REG) &&
                !is_own(m, place, entry->d_name))
                return shadowed(place, entry->d_name, length, err);
            at += entry->d_reclen;
        }
    }
}

static uint32_t little(const unsigned char *p, size_t bytes)
{
    uint32_t value = 0;
    while (bytes-- > 0)
        value = value << 8 | p[bytes];
    return value;
}

/* Return the position of the record at the end of the archive, which a comment may follow; -1 for a file that
 * is not an archive. */
static off_t archive_end(int fd, off_t size, unsigned char record[static ARCHIVE_END_SIZE])
{
    static unsigned char tail[ARCHIVE_END_SIZE + ARCHIVE_COMMENT_MAX];
    size_t length = size < (off_t)sizeof(tail) ? (size_t)size : sizeof(tail);
    if (length < ARCHIVE_END_SIZE || pread(fd, tail, length, size - (off_t)length) != (ssize_t)length)
        return -1;
    for (size_t at = length - ARCHIVE_END_SIZE + 1; at-- > 0;)
        if (memcmp(tail + at, "PK\5\6", 4) == 0) {
            memcpy(record, tail + at, ARCHIVE_END_SIZE);
            return size - (off_t)length + (off_t)at;
        }
    return -1;
}

/* Return 1 for an archive that contains none of the modules, 0 for a file that is not an archive. */
static int check_archive(const struct manifest *m, int fd, off_t size, const char *place, struct error *err)
{
    unsigned char end[ARCHIVE_END_SIZE];
    struct {
        unsigned char head[ARCHIVE_ENTRY_SIZE];
        char name[PATH_MAX];
    } entry;
    off_t behind = archive_end(fd, size, end);
    if (behind < 0)
        return 0;
    off_t at = behind - (off_t)little(end + 12, 4);
    for (unsigned i = 0; at < behind; i++) {
        ssize_t n = pread(fd, &entry, sizeof(entry), at);
        size_t length = little(entry.head + 28, 2);
        if (at < 0 || i == ARCHIVE_ENTRIES_MAX || n < (ssize_t)ARCHIVE_ENTRY_SIZE ||
            memcmp(entry.head, "PK\1\2", 4) != 0 || ARCHIVE_ENTRY_SIZE + length > (size_t)n)
            return error_text(err, IN_THE_WAY, "the archive '%s' cannot be read", place);
        const char *slash = memchr(entry.name, '/', length);
        size_t top = slash != NULL ? (size_t)(slash - entry.name) : length;
        if (is_shadow(m, entry.name, top, slash == NULL))
            return shadowed(place, entry.name, top, err);
        at += (off_t)(ARCHIVE_ENTRY_SIZE + length + little(entry.head + 30, 2) + little(entry.head + 32, 2));
    }
    return 1;
}

int manifest_check_shadow(const struct manifest *m, const struct root_view *view, const char *directory,
                          struct error *err)
{
    cleanup_fd int dir = root_view_open(view, directory, O_RDONLY | O_DIRECTORY);
    if (dir == -ENOENT || dir == -ENOTDIR)
        return 0;
    return dir < 0 ? error_set(err, dir, "open '%s'", directory) : check_directory(m, dir, directory, err);
}

/* As the kernel. */
#define MAX_LINKS 40

static int join(char out[static PATH_MAX], const char *directory, const char *name, struct error *err)
{
    bool absolute = name[0] == '/';
    const char *slash = absolute || str_eq(directory, "/") ? "" : "/";
    int n = snprintf(out, PATH_MAX, "%s%s%s", absolute ? "" : directory, slash, name);
    return n < 0 || n >= PATH_MAX ? error_set(err, -ENAMETOOLONG, "'%.64s…'", name) : 0;
}

/* Remove the last component; "/" stays. */
static void to_parent(char *path)
{
    char *slash = strrchr(path, '/');
    slash[slash == path] = '\0';
}

/* Check the script's directory and, if the script is a link, the directory of each target: the interpreter
 * takes that of the last one. */
static int check_script(const struct manifest *m, const struct root_view *view, const char *path,
                        struct error *err)
{
    char place[PATH_MAX], directory[PATH_MAX], target[PATH_MAX];
    int ret = join(place, "", path, err);
    for (unsigned links = 0; ret == 0 && links <= MAX_LINKS; links++) {
        memcpy(directory, place, strlen(place) + 1);
        to_parent(directory);
        ret = manifest_check_shadow(m, view, directory, err);
        if (ret < 0)
            return ret;
        cleanup_fd int dir = root_view_open(view, directory, O_PATH | O_DIRECTORY);
        ssize_t n = dir >= 0 ? readlinkat(dir, strrchr(place, '/') + 1, target, sizeof(target) - 1) : -1;
        if (n < 0)
            return 0;
        target[n] = '\0';
        ret = join(place, directory, target, err);
    }
    return ret;
}

/* Return whether -I or -P leaves out the directory of -c, -m, standard input and scripts. */
static bool is_safe_path(const struct command_line *command_line)
{
    for (size_t i = 0; i < command_line->option_count; i++)
        if (str_eq(command_line->options[i], "-I") || str_eq(command_line->options[i], "-P"))
            return true;
    return false;
}

int manifest_check_program(const struct manifest *m, const struct root_view *view,
                           const struct command_line *command_line, char *const *argv, const char *cwd,
                           struct error *err)
{
    char path[PATH_MAX];
    bool safe = is_safe_path(command_line);
    if (command_line->program != WARM_PROGRAM_FILE)
        return safe ? 0 : manifest_check_shadow(m, view, cwd, err);
    int ret = join(path, cwd, argv[command_line->program_index], err);
    if (ret < 0)
        return ret;
    struct stat st;
    cleanup_fd int fd = root_view_open(view, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd == -ENOENT || fd == -ENOTDIR)
        return 0;
    if (fd == -EXDEV || fd == -ELOOP)
        return error_text(
            err, fd,
            "the program '%s' cannot be examined: its path leads through links of /proc, or to a "
            "mount that is not visible from outside (for standard input, '-' starts warm)",
            path);
    if (fd < 0)
        return error_set(err, fd, "open '%s'", path);
    if (fstat(fd, &st) < 0)
        return error_set(err, -errno, "examine '%s'", path);
    if (S_ISDIR(st.st_mode))
        return check_directory(m, fd, path, err);
    ret = S_ISREG(st.st_mode) ? check_archive(m, fd, st.st_size, path, err) : 0;
    if (ret != 0)
        return ret < 0 ? ret : 0;
    return safe ? 0 : check_script(m, view, path, err);
}
