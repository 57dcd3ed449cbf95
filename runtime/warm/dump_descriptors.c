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
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "warm/dump_tracee.h"
#include "warm/identity.h"
#include "warm/image.h"

/* What can be opened again: the index of a mapped file, or /dev/urandom. Paths tell only how a file was
 * called.
 */
static bool file_of(const struct tracee *t, const struct image_parts *parts, const char *entry,
                    const char *path, uint32_t *file)
{
    struct stat st;
    struct file_identity identity;
    cleanup_fd int fd = openat(t->proc, entry, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || identity_of(fd, &identity) < 0)
        return false;
    *file = IMAGE_FILE_URANDOM;
    if (S_ISCHR(st.st_mode) && st.st_rdev == IMAGE_URANDOM_DEVICE)
        return true;
    for (*file = 0; *file < parts->file_count; ++*file)
        if (str_eq(parts->strings + parts->files[*file].path, path) &&
            identity_equal(&parts->files[*file].identity, &identity))
            return true;
    return false;
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
    if (!file_of(t, parts, arena_printf(a, "fd/%s", number), target, &descriptor.file) ||
        !read_info(t, a, number, &descriptor) || h->descriptor_count == IMAGE_MAX_DESCRIPTORS ||
        descriptor.fd > IMAGE_HIGHEST_DESCRIPTOR)
        return error_text(err, -ENOTSUP, "descriptor %s is open (%s)", number, target);
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
