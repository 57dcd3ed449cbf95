/* The kernel does not tell whether the layers of an overlay are of one file system. A file tells: only then
 * it has the device of its directory (Documentation/filesystems/overlayfs.rst, "Inode properties"). So the
 * first file of the mount is looked for. */
#include "warm/numbering.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "warm/content.h"

/* The search ends after so many names, and levels below the root of the mount. */
#define NAMES_MAX 4096
#define DEPTH_MAX 16

struct search {
    dev_t device; /* of the directories */
    unsigned names;
};

/* Return 1 if a file below the directory has its device, 0 if it has another, -1 if there is no file. */
static int look(struct search *s, int dir, unsigned depth);

static int look_at(struct search *s, int dir, const char *name, bool directories, unsigned depth)
{
    struct stat st;
    cleanup_fd int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || S_ISDIR(st.st_mode) != directories || content_is_mounted(dir, fd))
        return -1;
    if (!directories)
        return st.st_dev == s->device;
    return depth > 0 ? look(s, fd, depth - 1) : -1;
}

static int look(struct search *s, int dir, unsigned depth)
{
    int found = -1;
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    if (list == NULL) {
        fd_close(&fd);
        return -1;
    }
    for (int directories = 0; directories < 2; directories++) { /* first the files, which are quicker */
        rewinddir(list);
        for (const struct dirent *e; found < 0 && s->names > 0 && (e = readdir(list)) != NULL;) {
            if (str_eq(e->d_name, ".") || str_eq(e->d_name, "..") ||
                (e->d_type != DT_UNKNOWN && (e->d_type == DT_DIR) != (directories == 1)))
                continue;
            s->names--;
            found = look_at(s, dir, e->d_name, directories == 1, depth);
        }
    }
    closedir(list);
    return found;
}

/* Return a descriptor of the root of the directory's mount, or of the highest directory that can be opened.
 */
static int open_top(int dir)
{
    int top = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    while (top >= 0) {
        struct stat here, above;
        cleanup_fd int up = openat(top, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (up < 0 || fstat(top, &here) < 0 || fstat(up, &above) < 0 || content_is_mounted(top, up) ||
            (here.st_dev == above.st_dev && here.st_ino == above.st_ino)) /* "/" is its own parent */
            break;
        fd_close(&top);
        top = fd_steal(&up);
    }
    return top;
}

bool numbering_lasts(int dir)
{
    static dev_t known; /* the answer is that of the whole overlay */
    static bool lasts;
    struct stat st;
    if (!content_is_overlay(dir) || fstat(dir, &st) < 0)
        return true;
    if (known != st.st_dev) {
        struct search s = {.device = st.st_dev, .names = NAMES_MAX};
        cleanup_fd int top = open_top(dir);
        lasts = look(&s, top, DEPTH_MAX) != 0;
        known = st.st_dev;
    }
    return lasts;
}
