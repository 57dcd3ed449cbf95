/* Open, change and attach detached mounts. */
#include "sandbox/mount/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/sys.h"

/* With ten thousand mounts, mountinfo has about 2 MiB. */
#define MOUNTINFO_MAX ((size_t)16 * 1024 * 1024)

#define APART_STACK ((size_t)256 * 1024)

static int set(int fd, struct mount_attr *attr, bool recursive)
{
    unsigned flags = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0);
    return sys_mount_setattr(fd, "", flags, attr, sizeof(*attr)) < 0 ? -errno : 0;
}

int mount_clone(int dirfd, const char *path, bool recursive, bool nofollow, enum mount_peers peers)
{
    static const unsigned long propagation[] = {
        [MOUNT_PEERS_PRIVATE] = MS_PRIVATE,
        [MOUNT_PEERS_SLAVE] = MS_SLAVE,
    };
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (recursive ? AT_RECURSIVE : 0) |
                     (nofollow ? AT_SYMLINK_NOFOLLOW : 0) | (path[0] == '\0' ? AT_EMPTY_PATH : 0);
    cleanup_fd int fd = sys_open_tree(dirfd, path, flags);
    if (fd < 0)
        return -errno;
    int ret = peers == MOUNT_PEERS_KEEP ? 0 : mount_set_propagation(fd, propagation[peers], recursive);
    return ret < 0 ? ret : fd_steal(&fd);
}

bool mount_namespaces_pinned(void)
{
    struct arena a = {0};
    char *text;
    bool pinned = io_read_file_at(&a, AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_MAX, &text, NULL) == 0 &&
                  strstr(text, " mnt:[") != NULL;
    arena_free(&a);
    return pinned;
}

struct apart {
    int (*call)(void *data);
    void *data;
    int result;
};

static int call_apart(void *data)
{
    struct apart *apart = data;
    apart->result = apart->call(apart->data);
    return 0;
}

int mount_apart(int (*call)(void *data), void *data, struct error *err)
{
    struct apart apart = {call, data, -ESRCH};
    char *stack =
        mmap(NULL, APART_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return error_set(err, -errno, "allocate a stack");
    pid_t pid = clone(call_apart, stack + APART_STACK,
                      CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_NEWNS | SIGCHLD, &apart);
    int ret = pid < 0 ? error_set(err, -errno, "make a mount namespace to open mounts in") : 0;
    if (pid > 0) {
        RETRY(waitpid(pid, NULL, 0));
        ret = apart.result;
    }
    munmap(stack, APART_STACK);
    return ret;
}

static int change(int fd, struct mount_attrs attrs, unsigned long propagation, bool recursive,
                  struct error *err)
{
    struct mount_attr attr = {.attr_set = attrs.set, .attr_clr = attrs.clear, .propagation = propagation};
    if (attr.attr_set == 0 && attr.attr_clr == 0 && attr.propagation == 0)
        return 0;
    int ret = set(fd, &attr, recursive);
    if (ret == -EPERM && attr.attr_clr != 0) {
        attr.attr_set &= ~(uint64_t)MOUNT_ATTR__ATIME;
        attr.attr_clr = 0;
        ret = set(fd, &attr, recursive);
    }
    return ret < 0 ? error_set(err, ret, "set mount attributes%s", recursive ? " recursively" : "") : 0;
}

int mount_set_options(int fd, const struct mount_options *options, uint64_t later, struct error *err)
{
    struct mount_attrs one = options->attrs, all = options->recursive;
    one.set &= ~later;
    all.set &= ~later;
    unsigned long propagation = options->propagation;
    unsigned long below = options->propagation_recursive ? propagation : 0;
    /* Change the r-forms first, so that "rro" with "rw" leaves the top writable. */
    int ret = change(fd, all, below, true, err);
    return ret < 0 ? ret : change(fd, one, propagation - below, false, err);
}

int mount_set_attrs(int fd, uint64_t attrs, bool recursive)
{
    struct mount_attr attr = {.attr_set = attrs};
    return set(fd, &attr, recursive);
}

int mount_set_propagation(int fd, unsigned long propagation, bool recursive)
{
    struct mount_attr attr = {.propagation = propagation};
    return set(fd, &attr, recursive);
}

int mount_protect_cgroups(int sys)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    if (sys_mount_setattr(sys, "fs/cgroup", AT_RECURSIVE, &attr, sizeof(attr)) < 0 && errno != ENOENT &&
        errno != EINVAL)
        return -errno;
    return 0;
}

int mount_attach(int fd, int target)
{
    return sys_move_mount(fd, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0 ? -errno
                                                                                                     : 0;
}
