/* Lists of mounts for a builder: proc_pid_mounts(5), proc_pid_mountinfo(5). */
#include "warm/observe/mounts.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/proc.h"
#include "base/str.h"

#define MOUNTS_MAX ((size_t)4 * 1024 * 1024) /* bytes of /proc/PID/mounts */

/* Write "SOURCE PATH TYPE OPTIONS 0 0", as in fstab(5): only what is mounted where. */
static void put_mount(int out, char *line)
{
    char *rest = NULL;
    strtok_r(line, " ", &rest);
    const char *place = strtok_r(NULL, " ", &rest), *type = strtok_r(NULL, " ", &rest);
    if (type != NULL)
        dprintf(out, "none %s %s rw 0 0\n", place, type);
}

/* Write "ID PARENT DEVICE ROOT PATH OPTIONS … - TYPE SOURCE OPTIONS", proc_pid_mountinfo(5). Libraries read
 * the entries of cgroups to learn how many CPUs they may use. There the options name the controllers; an
 * entry for part of a hierarchy names the container. */
static void put_mountinfo(int out, char *line)
{
    enum { ID, PARENT, DEVICE, ROOT, PLACE, OPTIONS, FIELDS };
    const char *field[FIELDS] = {NULL};
    char *rest = strstr(line, " - "), *save = NULL;
    if (rest == NULL)
        return;
    *rest = '\0';
    for (size_t i = 0; i < FIELDS; i++)
        field[i] = strtok_r(i == 0 ? line : NULL, " ", &save);
    const char *type = strtok_r(rest + 3, " ", &save), *source = strtok_r(NULL, " ", &save),
               *options = strtok_r(NULL, " ", &save);
    if (field[OPTIONS] == NULL || options == NULL)
        return;
    (void)source;
    bool is_cgroup = str_after(type, "cgroup") != NULL;
    if (is_cgroup && !str_eq(field[ROOT], "/"))
        return;
    dprintf(out, "%s %s %s / %s %s - %s none %s\n", field[ID], field[PARENT], field[DEVICE], field[PLACE],
            field[OPTIONS], type, is_cgroup ? options : "rw");
}

int observe_mounts(struct arena *a, pid_t pid, const char *name)
{
    struct error ignored = {0};
    char *text, *save = NULL;
    cleanup_fd int dir = proc_open_process(pid, &ignored);
    int ret = dir < 0 ? dir : io_read_file_at(a, dir, name, MOUNTS_MAX, &text, NULL);
    if (ret < 0)
        return ret;
    cleanup_fd int fd = memfd_create("mounts", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
        (str_eq(name, "mounts") ? put_mount : put_mountinfo)(fd, line);
    return lseek(fd, 0, SEEK_SET) < 0 ? -errno : fd_steal(&fd);
}
