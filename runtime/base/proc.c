/* The trusted /proc of the runtime. */
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"

int proc_root(struct error *err)
{
    static int root = -1;
    if (root >= 0)
        return root;
    cleanup_fd int fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return error_set(err, -errno, "open '/proc'");
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return error_set(err, -errno, "statfs '/proc'");
    if (fs.f_type != PROC_SUPER_MAGIC)
        return error_set(err, -EINVAL, "'/proc' is not a proc file system: refusing to use it");
    return root = fd_steal(&fd);
}

int proc_open(const char *path, int flags, struct error *err)
{
    int root = proc_root(err);
    if (root < 0)
        return root;
    int fd = path_open_beneath(root, path, flags);
    if (fd == -EXDEV)
        return error_text(err, fd, "'/proc/%s' is covered by another mount: refusing to use it", path);
    if (fd < 0)
        return error_set(err, fd, "open '/proc/%s'", path);
    return fd;
}

int proc_write(const char *path, const char *value, struct error *err)
{
    cleanup_fd int fd = proc_open(path, O_WRONLY, err);
    if (fd < 0)
        return fd;
    if (RETRY(write(fd, value, strlen(value))) < 0)
        return error_set(err, -errno, "write '%s' to '/proc/%s'", value, path);
    return 0;
}

int proc_reopen(int fd, int flags)
{
    char path[32];
    int root = proc_root(NULL);
    if (root < 0)
        return root;
    snprintf(path, sizeof(path), "self/fd/%d", fd);
    int again = openat(root, path, flags | O_CLOEXEC);
    return again < 0 ? -errno : again;
}

int proc_open_regular(const char *path)
{
    cleanup_fd int file = path_open_no_magic(path, O_PATH, 0);
    struct stat st;
    if (file < 0)
        return file;
    if (fstat(file, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    return proc_reopen(file, O_RDONLY | O_NONBLOCK | O_NOCTTY);
}

int proc_open_process(pid_t pid, struct error *err)
{
    char path[32];
    snprintf(path, sizeof(path), "%d", (int)pid);
    return proc_open(path, O_RDONLY | O_DIRECTORY, err);
}

int proc_in_pid_namespace(int dir, const struct stat *ns)
{
    struct stat own;
    if (fstatat(dir, "ns/pid", &own, 0) < 0)
        return -errno;
    return own.st_dev == ns->st_dev && own.st_ino == ns->st_ino;
}

int proc_read_stat(pid_t pid, struct proc_stat *out)
{
    char path[32], text[1024];
    snprintf(path, sizeof(path), "%d/stat", (int)pid);
    int root = proc_root(NULL);
    if (root < 0)
        return root;
    cleanup_fd int fd = path_open_beneath(root, path, O_RDONLY);
    if (fd < 0)
        return fd == -ENOENT ? -ESRCH : fd;
    ssize_t n = io_read_full(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return n < 0 ? (int)n : -ESRCH;
    text[n] = '\0';
    if (!proc_parse_stat(text, out))
        return -EINVAL;
    if (out->state == 'Z' && out->threads > 1)
        out->state = 'S'; /* its first thread has ended (pthread_exit(3)), but others still run */
    return 0;
}

/* linux/sched.h has it, but no header for programs. proc_pid_stat(5) refers to it. */
#define PF_FORKNOEXEC 0x40UL

/* Fields count from 1. The second is the command in parentheses and may hold any byte, so the others count
 * from the last ")". */
bool proc_parse_stat(const char *text, struct proc_stat *out)
{
    const char *p = strrchr(text, ')');
    if (p == NULL || p[1] != ' ' || p[2] == '\0')
        return false;
    p += 2;
    *out = (struct proc_stat){.state = *p};
    for (int field = 4; field <= 22; field++) {
        p = strchr(p, ' ');
        if (p == NULL)
            return false;
        p++;
        if (field == 9)
            out->executed = (strtoul(p, NULL, 10) & PF_FORKNOEXEC) == 0;
        else if (field == 20)
            out->threads = strtol(p, NULL, 10);
        else if (field == 22)
            out->start_time = strtoull(p, NULL, 10);
    }
    return true;
}
