/* A cgroup directory and its descendants, by descriptors: cgroups(7), admin-guide/cgroup-v2.rst. */
#include "cgroup/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/str.h"

int64_t cgroup_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int cgroup_tree_open(const char *mount, const char *path)
{
    cleanup_fd int root = open(mount, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -errno;
    path += strspn(path, "/");
    return path_open_beneath(root, path[0] != '\0' ? path : ".", O_PATH | O_DIRECTORY | O_NOFOLLOW);
}

static int find_value(const char *text, const char *key, uint64_t *value)
{
    for (const char *line = text; *line != '\0';) {
        const char *rest = str_after(line, key);
        if (rest != NULL && *rest == ' ') {
            *value = strtoull(rest + 1, NULL, 10);
            return 0;
        }
        line = strchrnul(line, '\n');
        line += *line == '\n';
    }
    return -ENODATA;
}

int cgroup_tree_value(int dirfd, const char *file, const char *key, uint64_t *value)
{
    char text[8192];
    ssize_t n = io_read_small_at(dirfd, file, text, sizeof(text));
    return n < 0 ? (int)n : find_value(text, key, value);
}

int cgroup_tree_wait(int dirfd, const char *key, uint64_t value, int timeout_ms)
{
    cleanup_fd int fd = openat(dirfd, "cgroup.events", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int64_t deadline = cgroup_now_ms() + timeout_ms;
    for (;;) {
        /* Read the file before each poll, because the kernel reports changes since the last read. */
        char text[256];
        uint64_t present = 0;
        ssize_t n = RETRY(pread(fd, text, sizeof(text) - 1, 0));
        if (n < 0)
            return errno == ENODEV ? -ENOENT : -errno;
        text[n] = '\0';
        int ret = find_value(text, key, &present);
        if (ret < 0 || present == value)
            return ret;
        int64_t left = deadline - cgroup_now_ms();
        if (left <= 0)
            return -ETIMEDOUT;
        struct pollfd p = {.fd = fd, .events = POLLPRI};
        if (poll(&p, 1, (int)left) < 0 && errno != EINTR)
            return -errno;
    }
}

static bool is_child(const struct dirent *d)
{
    return d->d_type == DT_DIR && strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

static void tree_close_directory(DIR **d)
{
    if (*d != NULL)
        closedir(*d);
}
#define cleanup_dir __attribute__((cleanup(tree_close_directory)))

static DIR *tree_open_directory(int dirfd, const char *name)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (d == NULL && fd >= 0)
        close(fd);
    return d;
}

struct pid_list {
    pid_t *items;
    size_t count, room;
};

static int read_pids(int dirfd, const char *path, const char *file, struct pid_list *list)
{
    char name[PATH_MAX + 32];
    snprintf(name, sizeof(name), "%s/%s", path, file);
    cleanup_fd int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    FILE *f = fd >= 0 ? fdopen(fd, "re") : NULL;
    if (f == NULL)
        return -errno;
    (void)fd_steal(&fd);
    int ret = 0, pid;
    errno = 0;
    while (fscanf(f, "%d", &pid) == 1) {
        if (list->count == list->room) {
            size_t room = list->room > 0 ? 2 * list->room : 64;
            pid_t *grown = reallocarray(list->items, room, sizeof(*grown));
            if (grown == NULL) {
                ret = -ENOMEM;
                break;
            }
            list->items = grown;
            list->room = room;
        }
        /* 0 is a process of a pid namespace that the caller cannot see. */
        if (pid > 0)
            list->items[list->count++] = pid;
    }
    if (ret == 0 && ferror(f))
        ret = -errno;
    fclose(f);
    return ret;
}

/* A threaded cgroup lists only its threads. A signal to a thread reaches the process. */
static int read_processes(int dirfd, const char *path, struct pid_list *list)
{
    int ret = read_pids(dirfd, path, "cgroup.procs", list);
    return ret == -EOPNOTSUPP ? read_pids(dirfd, path, "cgroup.threads", list) : ret;
}

/* Paths relative to the top of the tree, first in, first out. A path that is too long for the kernel is
 * skipped: it has two thousand levels, which no normal program creates. */
struct path_queue {
    char **items;
    size_t head, count, room;
};

static int queue_add(struct path_queue *q, const char *dir, const char *name)
{
    if (q->count == q->room) {
        size_t room = q->room > 0 ? 2 * q->room : 16;
        char **grown = reallocarray(q->items, room, sizeof(*grown));
        if (grown == NULL)
            return -ENOMEM;
        q->items = grown;
        q->room = room;
    }
    if (strlen(dir) + strlen(name) + 2 > PATH_MAX)
        return 0;
    if (asprintf(&q->items[q->count], "%s/%s", dir, name) < 0)
        return -ENOMEM;
    q->count++;
    return 0;
}

static int queue_children(int dirfd, const char *path, struct path_queue *q)
{
    cleanup_dir DIR *d = tree_open_directory(dirfd, path);
    if (d == NULL)
        return errno == ENOENT ? 0 : -errno;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        int ret = is_child(e) ? queue_add(q, path, e->d_name) : 0;
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int collect_pids(int dirfd, struct path_queue *q, struct pid_list *list)
{
    int ret = queue_children(dirfd, ".", q);
    if (ret < 0)
        return ret;
    ret = read_processes(dirfd, ".", list);
    if (ret < 0)
        return ret;
    while (q->head < q->count) {
        const char *path = q->items[q->head++];
        ret = queue_children(dirfd, path, q);
        if (ret < 0)
            return ret;
        ret = read_processes(dirfd, path, list);
        bool removed = ret == -ENOENT || ret == -ENODEV; /* after it was listed */
        if (ret < 0 && !removed)
            return ret;
    }
    return 0;
}

int cgroup_tree_pids(int dirfd, pid_t **pids, size_t *count)
{
    struct path_queue q = {0};
    struct pid_list list = {0};
    int ret = collect_pids(dirfd, &q, &list);
    for (size_t i = 0; i < q.count; i++)
        free(q.items[i]);
    free(q.items);
    if (ret < 0) {
        free(list.items);
        return ret == -ENODEV ? -ENOENT : ret;
    }
    *pids = list.items;
    *count = list.count;
    return 0;
}

/* Time for killed processes to end before they are signalled one by one. */
#define KILL_PATIENCE_MS 200

/* For Linux before 5.14. SIGKILL also ends a frozen process, so none can be forked between the list and the
 * signals. */
static int kill_listed(int dirfd)
{
    (void)io_write_value_at(dirfd, "cgroup.freeze", "1");
    (void)cgroup_tree_wait(dirfd, "frozen", 1, 1000);
    cleanup_free pid_t *pids = NULL;
    size_t count = 0;
    int ret = cgroup_tree_pids(dirfd, &pids, &count);
    for (size_t i = 0; ret == 0 && i < count; i++)
        if (kill(pids[i], SIGKILL) < 0 && errno != ESRCH)
            ret = -errno;
    (void)io_write_value_at(dirfd, "cgroup.freeze", "0");
    return ret;
}

int cgroup_tree_kill(int dirfd)
{
    int ret = io_write_value_at(dirfd, "cgroup.kill", "1");
    /* The kernel sends the signal to the first thread of a process. It is lost if that thread has ended
     * (6.18). */
    if (ret == 0 && cgroup_tree_wait(dirfd, "populated", 0, KILL_PATIENCE_MS) == -ETIMEDOUT) {
        ret = kill_listed(dirfd);
        /* The processes were slow to end, and systemd, which waits for their end, has removed the cgroup. */
        return ret == -ENOENT ? 0 : ret;
    }
    /* A threaded cgroup cannot be killed as a whole. */
    return ret == -ENOENT || ret == -EOPNOTSUPP ? kill_listed(dirfd) : ret;
}

/* Remove the removable children of `dir`. *down is a child that has children of its own, or -1. `finished` is
 * the inode of a child that is known to have no children: if that one is busy, it has processes. */
static int remove_children(int dir, ino_t finished, int *down)
{
    *down = -1;
    cleanup_dir DIR *d = tree_open_directory(dir, ".");
    if (d == NULL)
        return -errno;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (!is_child(e) || unlinkat(dir, e->d_name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            continue;
        if (errno != EBUSY || e->d_ino == finished)
            return -errno;
        *down = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (*down >= 0)
            return 0;
        if (errno != ENOENT)
            return -errno;
    }
    return 0;
}

int cgroup_tree_clear(int dirfd)
{
    /* Descend to a leaf and return by "..", so that neither stack nor descriptors grow with the depth. */
    cleanup_fd int dir = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    ino_t finished = 0;
    for (size_t depth = 0;;) {
        int next;
        int ret = remove_children(dir, finished, &next);
        if (ret < 0)
            return ret;
        if (next >= 0) {
            finished = 0;
            depth++;
        } else {
            if (depth-- == 0)
                return 0;
            struct stat st;
            if (fstat(dir, &st) < 0)
                return -errno;
            finished = st.st_ino;
            next = openat(dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            if (next < 0)
                return -errno;
        }
        fd_close(&dir);
        dir = next;
    }
}
