/* The capability, the mark, the lock, and non-dumpable clones. */
#include "container/tracing.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/proc.h"
#include "container/lookup.h"
#include "container/record.h"
#include "sandbox/caps.h"
#include "sandbox/namespaces.h"

bool tracing_capable(const struct caps_plan *caps)
{
    uint64_t held = caps->bounding | caps->permitted;
    return (held >> CAP_SYS_PTRACE & 1) != 0 && (held >> CAP_SYS_ADMIN & 1) == 0;
}

bool tracing_possible(const struct namespaces_plan *namespaces, bool capable)
{
    if (((namespaces->make | namespaces->join) & CLONE_NEWUSER) != 0)
        return false;
    return ((namespaces->make & CLONE_NEWPID) != 0 && capable) || (namespaces->join & CLONE_NEWPID) != 0;
}

static bool can_become_traceable(const struct record *record)
{
    return (record->namespaces & (CLONE_NEWUSER | CLONE_NEWPID)) == CLONE_NEWPID;
}

int tracing_check_exec(int dir, const struct record *record, bool capable, struct error *err)
{
    if (!capable || !can_become_traceable(record))
        return 0;
    enum record_beginning begun = record_beginning(dir, record);
    if (begun == RECORD_IS_PROGRAM)
        return 0;
    bool waits = begun == RECORD_WAITS;
    return error_text(err, -EBUSY,
                      "cannot exec in container '%s': it is %s, and with CAP_SYS_PTRACE the process could "
                      "trace its first one, which is not confined yet: %s",
                      record->id, waits ? "created" : "being started",
                      waits ? "start the container first" : "repeat it later");
}

/* The saved configuration is never replaced, so all processes lock the same file. */
static int lock_container(int dir, const char *id, int operation, struct error *err)
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
    return faccessat(dir, RECORD_TRACEABLE, F_OK, 0) == 0;
}

static int mark(int dir, const char *id, struct error *err)
{
    cleanup_fd int fd = openat(dir, RECORD_TRACEABLE, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? record_write_error(dir, -errno, RECORD_TRACEABLE, id, err) : 0;
}

static int mark_locked(int root, const char *id, struct error *err)
{
    cleanup_fd int dir = record_open_dir(root, id, err);
    if (dir < 0)
        return dir;
    cleanup_fd int lock = lock_container(dir, id, LOCK_EX, err);
    /* A container that is still being created has no saved configuration. No exec can enter it yet. */
    if (lock < 0 && lock != -ENOENT)
        return lock;
    return mark(dir, id, err);
}

int tracing_announce(int root, const char *id, const struct stat *ns, struct error *err)
{
    cleanup_arena struct arena a = {0};
    struct listed *items;
    size_t count;
    int ret = container_list_in(&a, root, &items, &count, err);
    for (size_t i = 0; ret == 0 && i < count; i++) {
        const struct record *other = &items[i].record;
        if (strcmp(other->id, id) == 0 || other->traceable || !can_become_traceable(other))
            continue;
        cleanup_fd int pidfd = record_pidfd(other);
        cleanup_fd int process = pidfd < 0 ? -1 : proc_open_process(other->pid, NULL);
        if (process < 0 || proc_in_pid_namespace(process, ns) != 1)
            continue;
        ret = mark_locked(root, other->id, err);
        /* If it is missing, the container was deleted meanwhile. */
        ret = ret == -ENOENT ? 0 : ret;
    }
    return ret;
}

static int announce_exec(int dir, const struct record *record, struct error *err)
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
    int ret = tracing_announce(root, record->id, &ns, err);
    return ret < 0 ? ret : mark(dir, record->id, err);
}

int tracing_enter(int dir, const struct record *record, bool capable, bool *late, int *lock,
                  struct error *err)
{
    *lock = -1;
    *late = record->traceable;
    if (!can_become_traceable(record) || (record->traceable && !capable))
        return 0;
    cleanup_fd int fd = lock_container(dir, record->id, capable ? LOCK_EX : LOCK_SH, err);
    if (fd < 0)
        return fd == -ENOENT ? error_set(err, fd, "open '%s' of container '%s'", RECORD_CONFIG, record->id)
                             : fd;
    bool marked = is_marked(dir);
    *late |= marked;
    if (capable && !marked) {
        int ret = announce_exec(dir, record, err);
        if (ret < 0)
            return ret;
    }
    if (!*late)
        *lock = fd_steal(&fd);
    return 0;
}

void nondumpable_begin(struct nondumpable *before, const struct spec_process *process)
{
    oom_lend(process, before->oom);
    before->dumpable = prctl(PR_GET_DUMPABLE) == 1;
    (void)prctl(PR_SET_DUMPABLE, 0);
}

void nondumpable_end(const struct nondumpable *before)
{
    if (before->dumpable)
        (void)prctl(PR_SET_DUMPABLE, 1);
    oom_restore(before->oom);
}
