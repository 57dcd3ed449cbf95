/* Find the mount point of cgroup2 (mountinfo: proc(5)) and the cgroup of a process (cgroups(7)). */
#include "cgroup/detect.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/proc.h"
#include "base/str.h"

/* With ten thousand mounts, mountinfo has about 2 MiB. */
#define MOUNTINFO_MAX ((size_t)64 << 20)

static bool is_cgroup2(const char *path)
{
    struct statfs fs;
    return statfs(path, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
}

static const char *find_in_mountinfo(struct arena *a)
{
    cleanup_fd int fd = proc_open("self/mountinfo", O_RDONLY, NULL);
    char *text;
    if (fd < 0 || io_read_fd(a, fd, MOUNTINFO_MAX, &text, NULL) < 0)
        return NULL;
    char *save_line = NULL;
    for (char *line = strtok_r(text, "\n", &save_line); line != NULL;
         line = strtok_r(NULL, "\n", &save_line)) {
        char *type = strstr(line, " - ");
        if (type == NULL || str_after(type, " - cgroup2 ") == NULL)
            continue;
        /* "ID PARENT MAJOR:MINOR ROOT TARGET …": the mount must show the whole hierarchy. */
        char *save = NULL, *field = strtok_r(line, " ", &save);
        for (int i = 0; i < 3 && field != NULL; i++)
            field = strtok_r(NULL, " ", &save);
        char *target = strtok_r(NULL, " ", &save);
        if (field == NULL || target == NULL || strcmp(field, "/") != 0)
            continue;
        str_unescape_octal(target);
        if (is_cgroup2(target))
            return target;
    }
    return NULL;
}

const char *cgroup_detect_mount(struct arena *a)
{
    static const char *const usual[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        if (is_cgroup2(usual[i]))
            return usual[i];
    return find_in_mountinfo(a);
}

int cgroup_detect_path(pid_t pid, char path[PATH_MAX], struct error *err)
{
    /* On a hybrid machine, cgroup v1 has a line for each hierarchy, at most a few dozen, and they come
     * first. */
    char name[32] = "self/cgroup", text[4 * PATH_MAX];
    if (pid != 0)
        snprintf(name, sizeof(name), "%d/cgroup", (int)pid);
    cleanup_fd int fd = proc_open(name, O_RDONLY, err);
    if (fd < 0)
        return fd;
    ssize_t n = io_read_full(fd, text, sizeof(text) - 1);
    if (n < 0)
        return error_set(err, (int)n, "read '/proc/%s'", name);
    text[n] = '\0';
    for (char *line = text; line != NULL && *line != '\0';) {
        char *end = strchrnul(line, '\n');
        const char *found = str_after(line, "0::/");
        if (found != NULL && *end == '\n' && end - found < PATH_MAX - 1) {
            *end = '\0';
            snprintf(path, PATH_MAX, "/%s", found);
            /* The kernel marks a cgroup that was removed before its process ended. */
            char *deleted = strstr(path, " (deleted)");
            if (deleted != NULL && deleted[sizeof(" (deleted)") - 1] == '\0')
                *deleted = '\0';
            return 0;
        }
        line = *end == '\n' ? end + 1 : NULL;
    }
    return error_text(err, -ENODATA, "'/proc/%s' has no entry for cgroup v2", name);
}
