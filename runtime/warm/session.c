/* Snapshots of sessions as files; see proc(5) for the descriptors that a path may name (/proc/self/fd/N), and
 * unix(7) for those that are received. */
#include "warm/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
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

static int check_file(int fd, const char *path, bool owned, struct stat *st, struct error *err)
{
    if (fstat(fd, st) < 0)
        return error_set(err, -errno, "snapshot '%s'", path);
    if (!S_ISREG(st->st_mode))
        return error_text(err, -EINVAL, "snapshot '%s': it is not a regular file", path);
    if ((st->st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return error_text(err, -EPERM, "snapshot '%s' is not private: it must have mode 0600", path);
    if (owned && st->st_uid != geteuid())
        return error_text(err, -EPERM, "snapshot '%s' is not the caller's: it must belong to user %u", path,
                          geteuid());
    return 0;
}

int session_create(const char *path, struct error *err)
{
    struct stat st;
    cleanup_fd int fd = open(path, O_RDWR | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set(err, -errno, "open '%s' for the snapshot", path);
    int ret = check_file(fd, path, true, &st, err);
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

static int open_snapshot(int fd, const char *path, bool owned, struct snapshot *out, struct error *err)
{
    struct stat st;
    int ret = check_file(fd, path, owned, &st, err);
    if (ret < 0)
        return ret;
    ret = snapshot_open(fd, out, err);
    if (ret < 0)
        return error_wrap(err, "snapshot '%s'", path);
    if (out->meta_size == sizeof(meta) && memcmp(out->meta, meta, sizeof(meta)) == 0)
        return 0;
    snapshot_close(out);
    return error_text(err, -EINVAL, "snapshot '%s': it is not the snapshot of a session", path);
}

int session_open(const char *path, struct snapshot *out, struct error *err)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, -errno, "open snapshot '%s'", path);
    int ret = open_snapshot(fd, path, true, out, err);
    return ret < 0 ? ret : fd_steal(&fd);
}

static int check_base(int fd, const char *base, const char *path, bool owned, const struct snapshot *snapshot,
                      struct error *err)
{
    struct stat st;
    int ret = check_file(fd, base, owned, &st, err);
    if (ret < 0)
        return ret;
    ret = snapshot_check_base(snapshot, fd, err);
    return ret < 0 ? error_wrap(err, "snapshot '%s'", path) : 0;
}

int session_open_base(const char *path, const struct snapshot *snapshot, const char *base, int *out,
                      struct error *err)
{
    const char *name = snapshot->header->base.name;
    *out = -1;
    if (name[0] == '\0')
        return 0;
    if (base == NULL)
        return error_text(err, -EINVAL,
                          "snapshot '%s' needs the pages of snapshot '%s': give --snapshot-base", path, name);
    cleanup_fd int fd = open(base, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, -errno, "open '%s', the base of snapshot '%s'", base, path);
    int ret = check_base(fd, base, path, true, snapshot, err);
    if (ret == 0)
        *out = fd_steal(&fd);
    return ret;
}

/* Receive up to two descriptors, with any data. */
static int receive_descriptors(int socket, int fds[2], struct error *err)
{
    union {
        char space[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr aligned;
    } control;
    char byte;
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.space)};
    ssize_t n = RETRY(recvmsg(socket, &message, MSG_CMSG_CLOEXEC));
    if (n < 0)
        return error_set(err, -errno, "receive the snapshot");
    if (n == 0)
        return error_text(err, -ECONNRESET, "its socket was closed before the snapshot came");
    const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
        memcpy(fds, CMSG_DATA(head),
               head->cmsg_len >= CMSG_LEN(2 * sizeof(int)) ? 2 * sizeof(int) : sizeof(int));
    if (fds[0] < 0 || (message.msg_flags & MSG_CTRUNC) != 0)
        return error_text(err, -EPROTO, "one or two descriptors must come with the first byte");
    for (int i = 0; i < 2 && fds[i] >= 0; i++)
        if ((fcntl(fds[i], F_GETFL) & O_ACCMODE) != O_RDONLY)
            return error_text(err, -EPROTO, "descriptor %d of a snapshot is not for reading only", i + 1);
    return 0;
}

int session_receive(int socket, struct snapshot *out, int *base, struct error *err)
{
    const char *path = "received";
    int fds[2] = {-1, -1};
    int ret = receive_descriptors(socket, fds, err);
    cleanup_fd int first = fds[0];
    cleanup_fd int second = fds[1];
    if (ret == 0)
        ret = open_snapshot(first, path, false, out, err);
    if (ret < 0)
        return ret;
    const char *name = out->header->base.name;
    if (name[0] != '\0' && second < 0)
        ret =
            error_text(err, -EINVAL, "snapshot '%s' needs the pages of snapshot '%s', which did not come too",
                       path, name);
    else if (name[0] == '\0' && second >= 0)
        ret = error_text(err, -EINVAL, "snapshot '%s' has no base, but a second descriptor came", path);
    else if (second >= 0)
        ret = check_base(second, "received as base", path, false, out, err);
    if (ret < 0) {
        snapshot_close(out);
        return ret;
    }
    *base = fd_steal(&second);
    return fd_steal(&first);
}
