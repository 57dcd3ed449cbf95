/* The observer's system calls as a table, and the filter built from it: seccomp(2), bpf(4). */
#include "warm/observe/filter.h"

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
#define NR_OPENAT2     437
#define NR_PIDFD_GETFD 438
#define NR_FACCESSAT2  439
#define NR_FCHMODAT2   452
#define NR_GETXATTRAT  464
#define NR_LISTXATTRAT 465

#define RING      "use io_uring, which hides what they read"
#define HANDLE    "use file handles, which hide what they read"
#define KEYS      "read keys of the kernel, which differ between containers"
#define PROCESS   "read another process, which hides what they read"
#define SYSTEM5   "use System V IPC or message queues, whose objects are not in a snapshot"
#define ATTRIBUTE "change an attribute of the process by prctl, which a snapshot does not contain"
#define SCHEDULER "scheduler"

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
    {SYS_getxattr, OBSERVED_STATUS, -1, 0, -1, NULL},
    {SYS_lgetxattr, OBSERVED_STATUS, -1, 0, -1, NULL},
    {SYS_listxattr, OBSERVED_STATUS, -1, 0, -1, NULL},
    {SYS_llistxattr, OBSERVED_STATUS, -1, 0, -1, NULL},
    {NR_GETXATTRAT, OBSERVED_STATUS, 0, 1, -1, NULL},
    {NR_LISTXATTRAT, OBSERVED_STATUS, 0, 1, -1, NULL},
    {SYS_access, OBSERVED_NAME, -1, 0, -1, NULL},
    {SYS_faccessat, OBSERVED_NAME, 0, 1, -1, NULL},
    {NR_FACCESSAT2, OBSERVED_NAME, 0, 1, -1, NULL},
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

#define CALLS (sizeof(calls) / sizeof(calls[0]))

const struct observed_call *observed_call(int number)
{
    for (size_t i = 0; i < CALLS; i++)
        if (calls[i].number == number)
            return &calls[i];
    return NULL;
}

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

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Let calls continue immediately if their arguments show that they reveal nothing, as most of them do. */
static void add_exceptions(struct program *p, const struct observed_call *call)
{
    static const uint32_t usual[] = {AF_UNIX, AF_INET, AF_INET6};
    static const uint32_t outputs[] = {STDOUT_FILENO, STDERR_FILENO};
    static const uint32_t in_key[] = {RLIMIT_STACK, RLIMIT_NOFILE};
    /* builder_state.c compares the others, such as PR_SET_NAME. */
    static const uint32_t lasting[] = {PR_SET_PDEATHSIG,  PR_SET_DUMPABLE,        PR_SET_KEEPCAPS,
                                       PR_SET_TIMERSLACK, PR_SET_CHILD_SUBREAPER, PR_SET_THP_DISABLE,
                                       PR_SET_SECUREBITS};
    switch (call->number) {
    case SYS_newfstatat:
    case SYS_statx: /* fstat(2) of newer C libraries: the path is empty */
        add_load(p, call->detail, false);
        add_jump(p, BPF_JSET, AT_EMPTY_PATH, 0, 1);
        add_return(p, SECCOMP_RET_ALLOW);
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
        add_only(p, lasting, COUNT(lasting));
        break;
    default:
        break;
    }
}

/* The maximum number of instructions for one call, and for the frame around all. */
#define LENGTH_OF_CALL  13
#define LENGTH_OF_FRAME 6

void observe_filter(struct arena *a, enum observe_mode mode, const struct sock_filter **filter, size_t *count)
{
    struct program p = {ARENA_ARRAY(a, CALLS * LENGTH_OF_CALL + LENGTH_OF_FRAME, struct sock_filter), 0};
    add(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
    add_jump(&p, BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0);
    add_return(&p, SECCOMP_RET_USER_NOTIF); /* calls of 32-bit programs are not in the table */
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
    add_return(&p, SECCOMP_RET_ALLOW);
    *filter = p.code;
    *count = p.count;
}
