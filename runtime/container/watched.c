/* Who has come into a pid namespace and may trace what is born there. */
#include "container/watched.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/proc.h"
#include "container/lifecycle.h"
#include "container/record.h"

/* In a user namespace of the container's own nobody can trace what is still the runtime: unseen.h. */
static bool can_be_watched(const struct record *record)
{
    return (record->namespaces & (CLONE_NEWUSER | CLONE_NEWPID)) == CLONE_NEWPID;
}

/* The configuration is never replaced, so its lock is everybody's. */
static int lock_entry(int dir, const char *id, int operation, struct error *err)
{
    cleanup_fd int fd = openat(dir, RECORD_CONFIG, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    int ret = record_wait_for_lock(fd, operation);
    if (ret == 0)
        return fd_steal(&fd);
    return error_text(
        err, ret,
        "container '%s': another process is on its way into it, and one of the two may trace the "
        "other (CAP_SYS_PTRACE): repeat it later",
        id);
}

static bool is_marked(int dir)
{
    return faccessat(dir, RECORD_WATCHED, F_OK, 0) == 0;
}

static int mark(int dir, const char *id, struct error *err)
{
    cleanup_fd int fd = openat(dir, RECORD_WATCHED, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? error_set(err, -errno, "write '%s' of container '%s'", RECORD_WATCHED, id) : 0;
}

static int tell(int root, const char *id, struct error *err)
{
    cleanup_fd int dir = record_open_dir(root, id, err);
    if (dir < 0)
        return dir;
    cleanup_fd int lock = lock_entry(dir, id, LOCK_EX, err);
    /* Without a configuration it is being made: nobody enters yet. */
    if (lock < 0 && lock != -ENOENT)
        return lock;
    return mark(dir, id, err);
}

int watched_tell(int root, const char *id, const struct stat *ns, struct error *err)
{
    struct arena a = {0};
    struct listed *items;
    size_t count;
    int ret = container_list_in(&a, root, &items, &count, err);
    for (size_t i = 0; ret == 0 && i < count; i++) {
        const struct record *other = &items[i].record;
        if (strcmp(other->id, id) == 0 || other->watched || !can_be_watched(other))
            continue;
        cleanup_fd int pidfd = record_pidfd(other);
        cleanup_fd int process = pidfd < 0 ? -1 : proc_open_process(other->pid, NULL);
        if (process < 0 || proc_in_pid_namespace(process, ns) != 1)
            continue;
        ret = tell(root, other->id, err);
        /* Somebody has deleted it. */
        ret = ret == -ENOENT ? 0 : ret;
    }
    arena_free(&a);
    return ret;
}

static int tell_all(int dir, const struct record *record, struct error *err)
{
    struct stat ns;
    cleanup_fd int root = openat(dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_set(err, -errno, "open the state directory");
    cleanup_fd int process = proc_open_process(record->pid, err);
    if (process < 0)
        return process;
    if (fstatat(process, "ns/pid", &ns, 0) < 0)
        return error_set(err, -errno, "stat the pid namespace of container '%s'", record->id);
    return watched_tell(root, record->id, &ns, err);
}

int watched_enter(int dir, const struct record *record, bool traces, bool *watched, int *lock,
                  struct error *err)
{
    *lock = -1;
    *watched = record->watched;
    if (!can_be_watched(record) || (record->watched && !traces))
        return 0;
    cleanup_fd int fd = lock_entry(dir, record->id, traces ? LOCK_EX : LOCK_SH, err);
    if (fd < 0)
        return fd == -ENOENT ? error_set(err, fd, "open '%s' of container '%s'", RECORD_CONFIG, record->id)
                             : fd;
    bool marked = is_marked(dir);
    *watched |= marked;
    int ret = traces && !marked ? tell_all(dir, record, err) : 0;
    if (ret == 0 && traces && !marked)
        ret = mark(dir, record->id, err);
    if (ret == 0 && !*watched)
        *lock = fd_steal(&fd);
    return ret;
}
