/* Snapshots of sessions as files; see proc(5) for the descriptors that a path may name (/proc/self/fd/N). */
#include "warm/session.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "warm/agent/agent.h"
#include "warm/dump/dump.h"
#include "warm/params.h"

/* This stands where a builder's snapshot has its manifest. That one begins a program; a session continues
 * one. */
static const char meta[] = "pysbx: a session, version 1";

static int check_file(int fd, const char *path, struct stat *st, struct error *err)
{
    if (fstat(fd, st) < 0)
        return error_set(err, -errno, "snapshot '%s'", path);
    if (!S_ISREG(st->st_mode))
        return error_text(err, -EINVAL, "snapshot '%s': it is not a regular file", path);
    if (st->st_uid != geteuid() || (st->st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return error_text(
            err, -EPERM,
            "snapshot '%s' is not private to the caller: it must belong to user %u and have mode "
            "0600",
            path, geteuid());
    return 0;
}

int session_create(const char *path, struct error *err)
{
    struct stat st;
    cleanup_fd int fd = open(path, O_RDWR | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set(err, -errno, "open '%s' for the snapshot", path);
    int ret = check_file(fd, path, &st, err);
    if (ret < 0)
        return ret;
    if (st.st_size != 0)
        return error_text(err, -EEXIST, "snapshot '%s': the file is not empty", path);
    return fd_steal(&fd);
}

int session_save(pid_t pid, int root, uint64_t limit, const struct dump_base *base, int out,
                 struct error *err)
{
    const struct dump_request request = {
        .pid = pid,
        .root = root,
        .agent_path = AGENT_MAPPED,
        .park = AGENT_PARK,
        .agent = agent_start,
        .agent_size = agent_size(),
        .limit = limit,
        .base = base,
        .spare = true,
        .meta = meta,
        .meta_size = sizeof(meta),
        .out = out,
    };
    int ret = warm_dump(&request, err);
    if (ret < 0)
        (void)!ftruncate(out, 0);
    return ret;
}

int session_fork(pid_t pid, pid_t *child, struct error *err)
{
    const struct dump_request request = {
        .pid = pid,
        .agent_path = AGENT_MAPPED,
        .park = AGENT_PARK,
        .waits = WARM_WAIT_MAGIC,
        .agent = agent_start,
        .agent_size = agent_size(),
    };
    return warm_dump_fork(&request, child, err);
}

int session_open(const char *path, struct snapshot *out, struct error *err)
{
    struct stat st;
    cleanup_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, -errno, "open snapshot '%s'", path);
    int ret = check_file(fd, path, &st, err);
    if (ret < 0)
        return ret;
    ret = snapshot_open(fd, out, err);
    if (ret < 0)
        return error_wrap(err, "snapshot '%s'", path);
    if (out->meta_size != sizeof(meta) || memcmp(out->meta, meta, sizeof(meta)) != 0) {
        snapshot_close(out);
        return error_text(err, -EINVAL, "snapshot '%s': it is not the snapshot of a session", path);
    }
    return fd_steal(&fd);
}

int session_open_base(const char *path, const struct snapshot *snapshot, const char *base, int *out,
                      struct error *err)
{
    const char *name = snapshot->header->base.name;
    struct stat st;
    *out = -1;
    if (name[0] == '\0')
        return 0;
    if (base == NULL)
        return error_text(err, -EINVAL,
                          "snapshot '%s' needs the pages of snapshot '%s': give --snapshot-base", path, name);
    cleanup_fd int fd = open(base, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, -errno, "open '%s', the base of snapshot '%s'", base, path);
    int ret = check_file(fd, base, &st, err);
    if (ret < 0)
        return ret;
    ret = snapshot_check_base(snapshot, fd, err);
    if (ret < 0)
        return error_wrap(err, "snapshot '%s'", path);
    *out = fd_steal(&fd);
    return 0;
}
