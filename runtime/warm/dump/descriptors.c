/* Open descriptors by /proc/PID/fd and fdinfo (proc(5)); kcmp(2) finds those that share a position. */
#include "warm/dump/descriptors.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/proc.h"
#include "base/str.h"
#include "warm/dump/files.h"
#include "warm/dump/request.h"
#include "warm/dump/text.h"
#include "warm/dump/tracee.h"
#include "warm/file_identity.h"
#include "warm/snapshot/snapshot.h"

/* A file of /proc/PID/fdinfo, with a line for each lock. */
#define MAX_INFO (1UL << 20)

/* The kernel's value: in C libraries for x86-64 O_LARGEFILE is 0. */
#define LARGEFILE 0100000U

/* With these flags the restore makes an equal descriptor; O_NOFOLLOW, which SQLite passes, only affected the
 * open(2) itself. */
#define PLAIN_FLAGS ((unsigned)(O_RDONLY | O_CLOEXEC | O_NOFOLLOW) | LARGEFILE)

/* The properties of a descriptor that are in /proc and not in the snapshot. */
struct details {
    const char *path; /* only the former name of the file */
    bool plain;       /* no flags or locks that would be lost */
};

/* Locks of fcntl(2) belong to the process that took them. In a builder, that is the process that it was
 * forked from, which has been waiting since. If that process cannot be examined, it may have a lock; if it
 * has closed the file, it has none. */
static bool parent_may_have_lock(const struct tracee *t, struct arena *a, const char *number)
{
    char *status, *info;
    const char *line;
    if (tracee_file(t, a, "status", &status, NULL, NULL) < 0 || (line = strstr(status, "\nPPid:")) == NULL)
        return true;
    cleanup_fd int parent = proc_open_process((pid_t)strtol(line + strlen("\nPPid:"), NULL, 10), NULL);
    if (parent < 0)
        return true;
    int ret = io_read_file_at(a, parent, arena_printf(a, "fdinfo/%s", number), MAX_INFO, &info, NULL);
    struct dump_descriptor found;
    return ret != -ENOENT && (ret < 0 || !dump_text_descriptor(info, &found) || found.has_lock);
}

static bool read_info(const struct tracee *t, struct arena *a, const char *number,
                      struct snapshot_descriptor *out, struct details *details)
{
    char *text;
    struct dump_descriptor found;
    if (tracee_file(t, a, arena_printf(a, "fdinfo/%s", number), &text, NULL, NULL) < 0 ||
        !dump_text_descriptor(text, &found))
        return false;
    out->position = found.position;
    out->close_on_exec = (found.flags & O_CLOEXEC) != 0;
    details->plain = (found.flags & ~PLAIN_FLAGS) == 0 && !found.has_lock;
    return (found.flags & (unsigned)(O_ACCMODE | O_PATH | O_DIRECTORY)) == O_RDONLY;
}

/* Two descriptors of one open(2) share a position (kcmp(2)). Assume that they do if this is unknown. */
static bool are_apart(const struct tracee *t, uint32_t one, uint32_t other)
{
    return syscall(SYS_kcmp, t->pid, t->pid, KCMP_FILE, (unsigned long)one, (unsigned long)other) > 0;
}

static const struct snapshot_descriptor *descriptor_of(const struct snapshot_header *h, uint32_t file)
{
    for (size_t i = 0; i < h->descriptor_count; i++)
        if (h->descriptors[i].file == file)
            return &h->descriptors[i];
    return NULL;
}

/* Find the file's index in the table, if no other descriptor has it: the restore opens each file once. The
 * index is the table's length if there is no such entry. Return false for a descriptor that cannot be told
 * from a saved one. */
static bool find_file(const struct tracee *t, const struct snapshot_parts *parts, const char *path,
                      const struct file_identity *identity, struct snapshot_descriptor *d)
{
    d->file = (uint32_t)parts->file_count;
    for (uint32_t i = 0; i < parts->file_count; i++) {
        const struct snapshot_descriptor *other = descriptor_of(&parts->header, i);
        if (!str_eq(parts->strings + parts->files[i].path, path) ||
            !identity_equal(&parts->files[i].identity, identity))
            continue;
        if (other == NULL)
            d->file = i;
        else if (!are_apart(t, other->fd, d->fd))
            return false;
    }
    return true;
}

/* Find a file that can be opened again: its index, which may be added to the table, or /dev/urandom. */
static bool file_of(const struct tracee *t, const struct dump_request *request, struct arena *a,
                    const char *number, const struct details *details, struct snapshot_parts *parts,
                    struct snapshot_descriptor *d)
{
    struct stat st;
    struct file_identity identity;
    cleanup_fd int fd = openat(t->proc, arena_printf(a, "fd/%s", number), O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || identity_of(fd, &identity) < 0)
        return false;
    d->file = SNAPSHOT_FILE_URANDOM;
    if (S_ISCHR(st.st_mode) && st.st_rdev == SNAPSHOT_URANDOM_DEVICE)
        return true;
    if (!find_file(t, parts, details->path, &identity, d))
        return false;
    return d->file < parts->file_count ||
           (identity.changed < request->began && details->plain && !parent_may_have_lock(t, a, number) &&
            dump_files_add(request->root, details->path, &identity, a, parts, &d->file));
}

static int take(struct tracee *t, const struct dump_request *request, struct arena *a, int listed,
                const char *number, struct snapshot_parts *parts, struct error *err)
{
    char target[PATH_MAX];
    struct details details = {.path = target};
    struct snapshot_header *h = &parts->header;
    struct snapshot_descriptor descriptor = {.fd = (uint32_t)strtoul(number, NULL, 10)};
    ssize_t n = readlinkat(listed, number, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    if (h->descriptor_count == SNAPSHOT_MAX_DESCRIPTORS || descriptor.fd > SNAPSHOT_HIGHEST_DESCRIPTOR ||
        !read_info(t, a, number, &descriptor, &details) ||
        !file_of(t, request, a, number, &details, parts, &descriptor))
        return error_text(err, -ENOTSUP, "descriptor %s is open (%s)", number, target);
    h->descriptors[h->descriptor_count++] = descriptor;
    return 0;
}

int dump_descriptors(struct tracee *t, const struct dump_request *request, struct arena *a,
                     struct snapshot_parts *parts, struct error *err)
{
    cleanup_fd int fd = openat(t->proc, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL)
        return error_set(err, -errno, "read '/proc/%d/fd'", (int)t->pid);
    int listed = fd_steal(&fd), ret = 0;
    for (const struct dirent *entry; ret == 0 && (entry = readdir(dir)) != NULL;)
        if (isdigit((unsigned char)entry->d_name[0]) && strtoul(entry->d_name, NULL, 10) > 2)
            ret = take(t, request, a, listed, entry->d_name, parts, err);
    closedir(dir);
    return ret;
}
