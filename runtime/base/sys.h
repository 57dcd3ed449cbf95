/* System calls that the C library of the oldest supported distribution (glibc 2.31) does not wrap, and
 * constants that its headers may lack. Each function returns -1 and sets errno on failure, like libc. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Do not include <sys/mount.h> in a file that includes this one: both define the constants of the mount
 * interface. mount(2) and umount2(2) are declared here. */
int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data);
int umount2(const char *target, int flags);

#ifndef MNT_DETACH
#define MNT_DETACH 2
#endif
#ifndef UMOUNT_NOFOLLOW
#define UMOUNT_NOFOLLOW 8
#endif
/* glibc 2.31 has its own list of system calls, which ends at Linux 5.5. */
#ifndef SYS_openat2
#define SYS_openat2 __NR_openat2
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd __NR_pidfd_getfd
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise __NR_process_madvise
#endif
/* An enumerator in musl and in glibc 2.36; glibc also makes it a macro. */
#ifndef P_PIDFD
#define P_PIDFD 3
#endif
#ifndef MOVE_MOUNT_F_EMPTY_PATH
#error "kernel headers of Linux 5.2 or later are needed"
#endif
#ifndef MOUNT_ATTR_IDMAP
#define MOUNT_ATTR_IDMAP 0x00100000
#endif
#ifndef MOUNT_ATTR_NOSYMFOLLOW
#define MOUNT_ATTR_NOSYMFOLLOW 0x00200000
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif
#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4U
#endif

#ifndef STATX_BASIC_STATS /* musl before 1.2.4 */
#include <linux/stat.h>
static inline int statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *st)
{
    return (int)syscall(SYS_statx, dirfd, path, flags, mask, st);
}
#endif
#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x2000
#endif

static inline int sys_openat2(int dirfd, const char *path, const struct open_how *how, size_t size)
{
    return (int)syscall(SYS_openat2, dirfd, path, how, size);
}

static inline pid_t sys_clone3(const struct clone_args *args, size_t size)
{
    return (pid_t)syscall(SYS_clone3, args, size);
}

static inline int sys_pidfd_open(pid_t pid, unsigned flags)
{
    return (int)syscall(SYS_pidfd_open, pid, flags);
}

static inline int sys_pidfd_send_signal(int pidfd, int sig, siginfo_t *info, unsigned flags)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, sig, info, flags);
}

static inline int sys_pidfd_getfd(int pidfd, int fd, unsigned flags)
{
    return (int)syscall(SYS_pidfd_getfd, pidfd, fd, flags);
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
    return (int)syscall(SYS_pivot_root, new_root, put_old);
}

static inline int sys_close_range(unsigned first, unsigned last, unsigned flags)
{
    return (int)syscall(SYS_close_range, first, last, flags);
}

static inline int sys_open_tree(int dirfd, const char *path, unsigned flags)
{
    return (int)syscall(SYS_open_tree, dirfd, path, flags);
}

static inline int sys_move_mount(int from, const char *from_path, int to, const char *to_path, unsigned flags)
{
    return (int)syscall(SYS_move_mount, from, from_path, to, to_path, flags);
}

static inline int sys_fsopen(const char *type, unsigned flags)
{
    return (int)syscall(SYS_fsopen, type, flags);
}

static inline int sys_fsconfig(int fd, unsigned command, const char *key, const void *value, int aux)
{
    return (int)syscall(SYS_fsconfig, fd, command, key, value, aux);
}

static inline int sys_fsmount(int fd, unsigned flags, unsigned attr)
{
    return (int)syscall(SYS_fsmount, fd, flags, attr);
}

static inline int sys_mount_setattr(int dirfd, const char *path, unsigned flags, struct mount_attr *attr,
                                    size_t size)
{
    return (int)syscall(SYS_mount_setattr, dirfd, path, flags, attr, size);
}

/* Child: ask for SIGKILL at the end of the parent, whose number it had before the fork. Return -1 with ESRCH
 * if the parent has ended already, because the kernel does not report that (PR_SET_PDEATHSIG(2const)). */
static inline int sys_end_with(pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return -1;
    if (getppid() == parent)
        return 0;
    errno = ESRCH;
    return -1;
}
