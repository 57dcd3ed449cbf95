/* The observer's system calls as a table, and the filter built from it: seccomp(2), bpf(4). */
#include "warm/observe/filter.h"

#include <asm/ioctls.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/sys.h"

/* Later than the oldest supported kernel headers: arch/x86/entry/syscalls/syscall_64.tbl. */
#define NR_OPENAT2       437
#define NR_PIDFD_OPEN    434
#define NR_CLOSE_RANGE   436
#define NR_PIDFD_GETFD   438
#define NR_FACCESSAT2    439
#define NR_EPOLL_PWAIT2  441
#define NR_FUTEX_WAITV   449
#define NR_FCHMODAT2     452
#define NR_FUTEX_WAKE    454
#define NR_FUTEX_WAIT    455
#define NR_FUTEX_REQUEUE 456
#define NR_GETXATTRAT    464
#define NR_LISTXATTRAT   465
#define NR_SETXATTRAT    463
#define NR_RMXATTRAT     466

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41 /* Linux 5.17 */
#endif

#define RING      "use io_uring, which hides what they read"
#define HANDLE    "use file handles, which hide what they read"
#define KEYS      "read keys of the kernel, which differ between containers"
#define PROCESS   "read another process, which hides what they read"
#define SYSTEM5   "use System V IPC or message queues, whose objects are not in a snapshot"
#define ATTRIBUTE "ask for or change an attribute of the process by prctl, which a snapshot does not contain"
#define SCHEDULER "scheduler"
#define AFFINITY  "affinity"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct observed_call calls[] = {
    {SYS_open, OBSERVED_OPEN, -1, 0, 1, NULL},
    {SYS_openat, OBSERVED_OPEN, 0, 1, 2, NULL},
    {NR_OPENAT2, OBSERVED_OPEN2, 0, 1, 2, NULL},
    {SYS_creat, OBSERVED_MADE, -1, 0, -1, NULL},
    {SYS_execve, OBSERVED_EXECUTE, -1, 0, -1, NULL},
    {SYS_execveat, OBSERVED_EXECUTE, 0, 1, -1, NULL},
    {SYS_stat, OBSERVED_STATUS, -1, 0, -1, NULL},
    {SYS_lstat, OBSERVED_STATUS, -1, 0, -1, NULL},
    {SYS_newfstatat, OBSERVED_STATUS, 0, 1, 3, NULL},
    {SYS_statx, OBSERVED_STATUS, 0, 1, 2, NULL},
    {SYS_statfs, OBSERVED_SPACE, -1, 0, -1, NULL},
    {SYS_fstatfs, OBSERVED_ROOM, -1, 0, -1, NULL},
    {SYS_fgetxattr, OBSERVED_OPENED, -1, 0, -1, NULL},
    {SYS_flistxattr, OBSERVED_OPENED, -1, 0, -1, NULL},
    {SYS_getxattr, OBSERVED_STATUS, -1, 0, -1, NULL},
    {SYS_lgetxattr, OBSERVED_STATUS, -1, 0, -1, NULL},
    {SYS_listxattr, OBSERVED_STATUS, -1, 0, -1, NULL},
    {SYS_llistxattr, OBSERVED_STATUS, -1, 0, -1, NULL},
    {NR_GETXATTRAT, OBSERVED_STATUS, 0, 1, -1, NULL},
    {NR_LISTXATTRAT, OBSERVED_STATUS, 0, 1, -1, NULL},
    {SYS_access, OBSERVED_ACCESS, -1, 0, 1, NULL},
    {SYS_faccessat, OBSERVED_ACCESS, 0, 1, 2, NULL},
    {NR_FACCESSAT2, OBSERVED_ACCESS, 0, 1, 2, NULL},
    {SYS_readlink, OBSERVED_NAME, -1, 0, -1, NULL},
    {SYS_readlinkat, OBSERVED_NAME, 0, 1, -1, NULL},
    {SYS_chdir, OBSERVED_NAME, -1, 0, -1, NULL},
    {SYS_mkdir, OBSERVED_MADE, -1, 0, -1, NULL},
    {SYS_mkdirat, OBSERVED_MADE, 0, 1, -1, NULL},
    {SYS_mknod, OBSERVED_MADE, -1, 0, -1, NULL},
    {SYS_mknodat, OBSERVED_MADE, 0, 1, -1, NULL},
    {SYS_rmdir, OBSERVED_NAME, -1, 0, -1, NULL},
    {SYS_unlink, OBSERVED_NAME, -1, 0, -1, NULL},
    {SYS_unlinkat, OBSERVED_NAME, 0, 1, -1, NULL},
    {SYS_rename, OBSERVED_NAME, -1, 0, -1, NULL},
    {SYS_renameat, OBSERVED_NAME, 0, 1, -1, NULL},
    {SYS_renameat2, OBSERVED_NAME, 0, 1, -1, NULL},
    {SYS_link, OBSERVED_NAME, -1, 0, -1, NULL},
    {SYS_linkat, OBSERVED_NAME, 0, 1, -1, NULL},
    {SYS_symlink, OBSERVED_MADE, -1, 1, -1, NULL},
    {SYS_symlinkat, OBSERVED_MADE, 1, 2, -1, NULL},
    {SYS_truncate, OBSERVED_NAME, -1, 0, -1, NULL},
    {SYS_setxattr, OBSERVED_NAME, -1, 0, -1, NULL},
    {SYS_lsetxattr, OBSERVED_NAME, -1, 0, -1, NULL},
    {SYS_removexattr, OBSERVED_NAME, -1, 0, -1, NULL},
    {SYS_lremovexattr, OBSERVED_NAME, -1, 0, -1, NULL},
    {NR_SETXATTRAT, OBSERVED_NAME, 0, 1, -1, NULL},
    {NR_RMXATTRAT, OBSERVED_NAME, 0, 1, -1, NULL},
    {SYS_chmod, OBSERVED_NAME, -1, 0, -1, NULL},
    {SYS_fchmodat, OBSERVED_NAME, 0, 1, -1, NULL},
    {NR_FCHMODAT2, OBSERVED_NAME, 0, 1, -1, NULL},
    {SYS_chown, OBSERVED_NAME, -1, 0, -1, NULL},
    {SYS_lchown, OBSERVED_NAME, -1, 0, -1, NULL},
    {SYS_fchownat, OBSERVED_NAME, 0, 1, -1, NULL},
    {SYS_utime, OBSERVED_NAME, -1, 0, -1, NULL},
    {SYS_utimes, OBSERVED_NAME, -1, 0, -1, NULL},
    {SYS_futimesat, OBSERVED_NAME, 0, 1, -1, NULL},
    {SYS_utimensat, OBSERVED_NAME, 0, 1, -1, NULL},
    {SYS_inotify_add_watch, OBSERVED_NAME, -1, 1, -1, NULL},
    {SYS_connect, OBSERVED_ADDRESS, -1, 1, 2, NULL},
    {SYS_bind, OBSERVED_OWN, -1, 1, 2, NULL},
    {SYS_sendto, OBSERVED_ADDRESS, -1, 4, 5, NULL},
    {SYS_sendmsg, OBSERVED_MESSAGE, -1, 1, -1, NULL},
    {SYS_sendmmsg, OBSERVED_MESSAGE, -1, 1, -1, NULL},
    {SYS_socket, OBSERVED_FAMILY, -1, -1, -1, NULL},
    {SYS_uname, OBSERVED_HOST, -1, -1, -1, NULL},
    {SYS_read, OBSERVED_INPUT, -1, -1, -1, NULL},
    {SYS_fork, OBSERVED_FORK, -1, -1, -1, NULL},
    {SYS_vfork, OBSERVED_FORK, -1, -1, -1, NULL},
    {SYS_clone, OBSERVED_FORK, -1, -1, -1, NULL},
    {SYS_clone3, OBSERVED_CLONE3, -1, 0, -1, NULL},
    {SYS_getrlimit, OBSERVED_LIMIT, -1, 0, -1, NULL},
    {SYS_prlimit64, OBSERVED_LIMIT, -1, 1, -1, NULL},
    {SYS_umask, OBSERVED_QUESTION, -1, -1, -1, "umask"},
    {SYS_getpriority, OBSERVED_QUESTION, -1, -1, -1, SCHEDULER},
    {SYS_sched_getscheduler, OBSERVED_QUESTION, -1, -1, -1, SCHEDULER},
    {SYS_sched_getparam, OBSERVED_QUESTION, -1, -1, -1, SCHEDULER},
    {SYS_sched_getattr, OBSERVED_QUESTION, -1, -1, -1, SCHEDULER},
    {SYS_sched_getaffinity, OBSERVED_QUESTION, -1, -1, -1, AFFINITY},
    {SYS_fstat, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_lseek, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_pread64, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_preadv, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_preadv2, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_dup, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_dup2, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_dup3, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_ftruncate, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_fsync, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_fdatasync, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_flock, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_getdents64, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_fchdir, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_fchmod, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_fchown, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_sendfile, OBSERVED_STREAM, -1, 1, -1, NULL},
    {SYS_splice, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_copy_file_range, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_getsockname, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_getpeername, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_getsockopt, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_setsockopt, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_recvfrom, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_recvmsg, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_shutdown, OBSERVED_STREAM, -1, 0, -1, NULL},
    {SYS_epoll_ctl, OBSERVED_STREAM, -1, 2, -1, NULL},
    {SYS_poll, OBSERVED_POLL, -1, 0, 1, NULL},
    {SYS_ppoll, OBSERVED_POLL, -1, 0, 1, NULL},
    {SYS_select, OBSERVED_SELECT, -1, 0, 1, NULL},
    {SYS_pselect6, OBSERVED_SELECT, -1, 0, 1, NULL},
    {SYS_fcntl, OBSERVED_FCNTL, -1, 0, 1, NULL},
    {SYS_ioctl, OBSERVED_IOCTL, -1, 0, 1, NULL},
    {SYS_kill, OBSERVED_OTHER, -1, 0, -1, NULL},
    {NR_PIDFD_OPEN, OBSERVED_OTHER, -1, 0, -1, NULL},
    {SYS_getpgid, OBSERVED_OTHER, -1, 0, -1, NULL},
    {SYS_getsid, OBSERVED_OTHER, -1, 0, -1, NULL},
    {SYS_getrandom, OBSERVED_RANDOM, -1, 1, 2, NULL},
    {SYS_timer_create, OBSERVED_HIDDEN, -1, -1, -1, "create a timer, which a snapshot does not contain"},
    {SYS_capset, OBSERVED_HIDDEN, -1, -1, -1, "change their capabilities, which a snapshot does not contain"},
    {SYS_ioprio_get, OBSERVED_HIDDEN, -1, -1, -1, "ask for their I/O priority"},
    {SYS_prctl, OBSERVED_HIDDEN, -1, -1, -1, ATTRIBUTE},
    {SYS_shmget, OBSERVED_HIDDEN, -1, -1, -1, SYSTEM5},
    {SYS_semget, OBSERVED_HIDDEN, -1, -1, -1, SYSTEM5},
    {SYS_msgget, OBSERVED_HIDDEN, -1, -1, -1, SYSTEM5},
    {SYS_mq_open, OBSERVED_HIDDEN, -1, -1, -1, SYSTEM5},
    {SYS_write, OBSERVED_OUTPUT, -1, -1, -1, NULL},
    {SYS_writev, OBSERVED_OUTPUT, -1, -1, -1, NULL},
    {SYS_io_uring_setup, OBSERVED_HIDDEN, -1, -1, -1, RING},
    {SYS_name_to_handle_at, OBSERVED_HIDDEN, -1, -1, -1, HANDLE},
    {SYS_open_by_handle_at, OBSERVED_HIDDEN, -1, -1, -1, HANDLE},
    {SYS_add_key, OBSERVED_HIDDEN, -1, -1, -1, KEYS},
    {SYS_request_key, OBSERVED_HIDDEN, -1, -1, -1, KEYS},
    {SYS_keyctl, OBSERVED_HIDDEN, -1, -1, -1, KEYS},
    {SYS_ptrace, OBSERVED_HIDDEN, -1, -1, -1, PROCESS},
    {SYS_process_vm_readv, OBSERVED_HIDDEN, -1, -1, -1, PROCESS},
    {NR_PIDFD_GETFD, OBSERVED_HIDDEN, -1, -1, -1, PROCESS},
};

#define CALLS COUNT(calls)

const struct observed_call *observed_call(int number)
{
    for (size_t i = 0; i < CALLS; i++)
        if (calls[i].number == number)
            return &calls[i];
    return NULL;
}

/* Calls that tell nothing which a container decides, or only what is compared in another way or is in the
 * key. A call that is neither here nor above is a reason against a snapshot. */
static const uint32_t silent[] = {
    /* memory */
    SYS_mbind, SYS_mmap, SYS_mprotect, SYS_munmap, SYS_brk, SYS_mremap, SYS_msync, SYS_madvise, SYS_mlock,
    SYS_mlock2, SYS_mlockall, SYS_munlock, SYS_munlockall, SYS_memfd_create, SYS_membarrier,
    SYS_pkey_mprotect, SYS_pkey_alloc, SYS_pkey_free,
    /* threads, and the end of processes */
    SYS_futex, SYS_set_robust_list, SYS_get_robust_list, SYS_set_tid_address, SYS_rseq, SYS_arch_prctl,
    SYS_gettid, SYS_sched_yield, SYS_exit, SYS_exit_group, SYS_wait4, SYS_waitid, SYS_tgkill, SYS_tkill,
    SYS_restart_syscall, NR_FUTEX_WAITV, NR_FUTEX_WAKE, NR_FUTEX_WAIT, NR_FUTEX_REQUEUE,
    /* signals and timers of the process */
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending, SYS_rt_sigtimedwait,
    SYS_rt_sigsuspend, SYS_sigaltstack, SYS_pause, SYS_alarm, SYS_getitimer, SYS_setitimer, SYS_nanosleep,
    SYS_clock_nanosleep,
    /* clocks, and the memory and CPUs of the machine */
    SYS_time, SYS_gettimeofday, SYS_clock_gettime, SYS_clock_getres, SYS_times, SYS_getrusage, SYS_sysinfo,
    SYS_getcpu, SYS_sched_get_priority_max, SYS_sched_get_priority_min,
    /* the process; builder_state.c compares what changes it */
    SYS_getpid, SYS_getppid, SYS_getpgrp, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getresuid,
    SYS_getresgid, SYS_getgroups, SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid,
    SYS_setresgid, SYS_setgroups, SYS_capget, SYS_getcwd, SYS_setrlimit, SYS_setpriority,
    SYS_sched_setaffinity, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr,
    /* files and sockets that are open */
    SYS_close, NR_CLOSE_RANGE, SYS_pipe, SYS_pipe2, SYS_readv, SYS_pwrite64, SYS_pwritev, SYS_pwritev2,
    SYS_fallocate, SYS_fadvise64, SYS_readahead, SYS_sync_file_range, SYS_sync, SYS_syncfs, SYS_getdents,
    SYS_fsetxattr, SYS_fremovexattr, SYS_epoll_create, SYS_epoll_create1, SYS_epoll_wait, SYS_epoll_pwait,
    NR_EPOLL_PWAIT2, SYS_eventfd, SYS_eventfd2, SYS_signalfd, SYS_signalfd4, SYS_timerfd_create,
    SYS_timerfd_settime, SYS_timerfd_gettime, SYS_inotify_init, SYS_inotify_init1, SYS_inotify_rm_watch,
    SYS_socketpair, SYS_listen, SYS_accept, SYS_accept4, SYS_recvmmsg};

struct program {
    struct sock_filter *code;
    size_t count;
};

static void add(struct program *p, struct sock_filter instruction)
{
    p->code[p->count++] = instruction;
}

static void add_jump(struct program *p, unsigned short test, uint32_t value, unsigned char yes,
                     unsigned char no)
{
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, value, yes, no));
}

static void add_return(struct program *p, uint32_t action)
{
    add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* Load half of an argument: the lower half comes first on this machine. */
static void add_load(struct program *p, int argument, bool upper)
{
    uint32_t at = (uint32_t)(offsetof(struct seccomp_data, args) + (size_t)argument * sizeof(uint64_t));
    add(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at + (upper ? 4 : 0)));
}

/* Let a call continue unless the loaded argument is one of the values. */
static void add_only(struct program *p, const uint32_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_jump(p, BPF_JEQ, values[i], (unsigned char)(count - i), 0);
    add_return(p, SECCOMP_RET_ALLOW);
}

/* Let a call continue if the loaded argument is one of the values. */
static void add_except(struct program *p, const uint32_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        add_jump(p, BPF_JEQ, values[i], 0, 1);
        add_return(p, SECCOMP_RET_ALLOW);
    }
}

/* Let calls continue immediately if their arguments show that they reveal nothing, as most of them do. */
static void add_exceptions(struct program *p, const struct observed_call *call)
{
    static const uint32_t usual[] = {AF_UNIX, AF_INET, AF_INET6};
    static const uint32_t outputs[] = {STDOUT_FILENO, STDERR_FILENO};
    static const uint32_t in_key[] = {RLIMIT_STACK, RLIMIT_NOFILE};
    /* builder_state.c compares the name, and the key has the capabilities. */
    static const uint32_t known[] = {PR_SET_NAME, PR_GET_NAME, PR_CAPBSET_READ, PR_SET_VMA};
    static const uint32_t plain[] = {FIOCLEX, FIONCLEX, FIONBIO, FIONREAD, TCGETS};
    static const uint32_t locks[] = {F_GETLK, F_OFD_GETLK};
    switch (call->number) {
    case SYS_newfstatat:
    case SYS_statx: /* fstat(2) of newer C libraries: the path is empty */
        add_load(p, call->detail, false);
        add_jump(p, BPF_JSET, AT_EMPTY_PATH, 0, 3);
        add_load(p, call->directory, false);
        add_jump(p, BPF_JGT, STDERR_FILENO, 0, 1);
        add_return(p, SECCOMP_RET_ALLOW);
        break;
    case SYS_fcntl:
        add_load(p, call->subject, false);
        add_jump(p, BPF_JGT, STDERR_FILENO, 0, COUNT(locks) + 2);
        add_load(p, call->detail, false);
        add_only(p, locks, COUNT(locks));
        break;
    case SYS_ioctl:
        add_load(p, call->subject, false);
        add_jump(p, BPF_JGT, STDERR_FILENO, 0, 2 * COUNT(plain) + 1);
        add_load(p, call->detail, false);
        add_except(p, plain, COUNT(plain));
        break;
    case SYS_read:
        add_load(p, 0, false);
        add_jump(p, BPF_JEQ, 0, 1, 0);
        add_return(p, SECCOMP_RET_ALLOW);
        break;
    case SYS_write:
    case SYS_writev:
        add_load(p, 0, false);
        add_only(p, outputs, COUNT(outputs));
        break;
    case SYS_clone:
        add_load(p, 0, false);
        add_jump(p, BPF_JSET, CLONE_THREAD, 0, 1);
        add_return(p, SECCOMP_RET_ALLOW);
        break;
    case SYS_sendto:
        add_load(p, call->subject, false);
        add_jump(p, BPF_JEQ, 0, 0, 3);
        add_load(p, call->subject, true);
        add_jump(p, BPF_JEQ, 0, 0, 1);
        add_return(p, SECCOMP_RET_ALLOW);
        break;
    case SYS_socket:
        add_load(p, 0, false);
        add_except(p, usual, COUNT(usual));
        break;
    case SYS_getrlimit:
    case SYS_prlimit64:
        add_load(p, call->subject, false);
        add_except(p, in_key, COUNT(in_key));
        break;
    case SYS_prctl:
        add_load(p, 0, false);
        add_except(p, known, COUNT(known));
        break;
    default:
        if (call->kind != OBSERVED_STREAM)
            break;
        add_load(p, call->subject, false);
        add_jump(p, BPF_JGT, STDERR_FILENO, 0, 1);
        add_return(p, SECCOMP_RET_ALLOW);
        break;
    }
}

/* The maximum number of instructions for one call, and for the frame around all. */
#define LENGTH_OF_CALL  17
#define LENGTH_OF_FRAME 6

void observe_filter(struct arena *a, enum observe_mode mode, const struct sock_filter **filter, size_t *count)
{
    size_t room = CALLS * LENGTH_OF_CALL + 2 * COUNT(silent) + LENGTH_OF_FRAME;
    struct program p = {ARENA_ARRAY(a, room, struct sock_filter), 0};
    add(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
    add_jump(&p, BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0);
    add_return(&p, SECCOMP_RET_USER_NOTIF); /* calls of 32-bit programs are not in the table */
    add(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    if (mode == OBSERVE_PROBE)
        add_except(&p, silent, COUNT(silent));
    for (size_t i = 0; i < CALLS; i++) {
        if (mode == OBSERVE_BUILDER && calls[i].kind != OBSERVED_OPEN && calls[i].kind != OBSERVED_OPEN2)
            continue;
        add(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
        size_t test = p.count;
        add_jump(&p, BPF_JEQ, (uint32_t)calls[i].number, 0, 0);
        add_exceptions(&p, &calls[i]);
        add_return(&p, SECCOMP_RET_USER_NOTIF);
        p.code[test].jf = (unsigned char)(p.count - test - 1);
    }
    add_return(&p, mode == OBSERVE_PROBE ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW);
    *filter = p.code;
    *count = p.count;
}
