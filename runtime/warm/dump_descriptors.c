/* Open descriptors by /proc/PID/fd and fdinfo (proc(5)). */
#include "warm/dump_descriptors.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "warm/dump_tracee.h"
#include "warm/identity.h"
#include "warm/image.h"

/* The index of the mapped file that it is, or -1. Paths tell only how a file was called. */
static long mapped_file(const struct tracee *t, const struct image_parts *parts, const char *entry,
                        const char *path)
{
    struct file_identity identity;
    cleanup_fd int fd = openat(t->proc, entry, O_PATH | O_CLOEXEC);
    if (fd < 0 || identity_of(fd, &identity) < 0)
        return -1;
    for (size_t i = 0; i < parts->file_count; i++)
        if (str_eq(parts->strings + parts->files[i].path, path) &&
            identity_equal(&parts->files[i].identity, &identity))
            return (long)i;
    return -1;
}

/* "pos:\t0\nflags:\t02100000\n…", the flags in octal. */
static bool read_info(struct tracee *t, struct arena *a, const char *number, struct image_descriptor *out)
{
    char *text;
    unsigned long position;
    unsigned flags;
    if (tracee_file(t, a, arena_printf(a, "fdinfo/%s", number), &text, NULL, NULL) < 0 ||
        sscanf(text, "pos: %lu flags: %o", &position, &flags) != 2)
        return false;
    out->position = position;
    out->close_on_exec = (flags & O_CLOEXEC) != 0;
    return (flags & (unsigned)(O_ACCMODE | O_PATH | O_DIRECTORY)) == O_RDONLY;
}

static int take(struct tracee *t, struct arena *a, int listed, const char *number, struct image_parts *parts,
                struct error *err)
{
    char target[PATH_MAX];
    struct image_header *h = &parts->header;
    struct image_descriptor descriptor = {.fd = (uint32_t)strtoul(number, NULL, 10)};
    ssize_t n = readlinkat(listed, number, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    long file = mapped_file(t, parts, arena_printf(a, "fd/%s", number), target);
    if (file < 0 || !read_info(t, a, number, &descriptor) || h->descriptor_count == IMAGE_MAX_DESCRIPTORS ||
        descriptor.fd > IMAGE_HIGHEST_DESCRIPTOR)
        return error_text(err, -ENOTSUP, "descriptor %s is open (%s)", number, target);
    descriptor.file = (uint32_t)file;
    h->descriptors[h->descriptor_count++] = descriptor;
    return 0;
}

int dump_descriptors(struct tracee *t, struct arena *a, struct image_parts *parts, struct error *err)
{
    cleanup_fd int fd = openat(t->proc, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL)
        return error_set(err, -errno, "read '/proc/%d/fd'", (int)t->pid);
    int listed = fd_steal(&fd), ret = 0;
    for (const struct dirent *entry; ret == 0 && (entry = readdir(dir)) != NULL;)
        if (isdigit((unsigned char)entry->d_name[0]) && strtoul(entry->d_name, NULL, 10) > 2)
            ret = take(t, a, listed, entry->d_name, parts, err);
    closedir(dir);
    return ret;
}
