/* Clone the program's process, and become the minimal init (container/first.h). clone(2), execveat(2),
 * seccomp(2), and set_tid_address(2) for the word that the kernel clears when a process leaves its memory. */
#include "container/child/first.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/proc.h"
#include "base/sys.h"
#include "container/child/first_program.h"
#include "container/execve.h"
#include "container/process.h"
#include "container/sync.h"

/* The exit status of a process that could not execute its program. Shells use it for "not found". */
#define EXIT_NO_PROGRAM 127

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#else
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

/* In the program's process. */

struct task {
    struct process_plan *plan;
    const char *program;
    int channel;
};

/* This process writes its own labels, for which it needs the runtime's /proc. */
static int first_take_labels(const struct process_plan *plan, struct error *err)
{
    if (!process_labels_open(plan))
        return 0;
    int ret = process_reopen_labels(plan, err);
    close(proc_root(NULL));
    return ret;
}

static int run_task(void *arg)
{
    const struct task *task = arg;
    const struct first_plan *first = &task->plan->first;
    struct error err = {0};
    const uint64_t none = 0;
    close(first->program);
    if (first->report >= 0)
        close(first->report);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
    if (first_take_labels(task->plan, &err) == 0)
        launch_enter(task->plan, NULL, task->program, task->channel, &err);
    sync_send_error(task->channel, &err);
    _exit(EXIT_NO_PROGRAM);
}

void first_wait_until_alone(const struct process_plan *plan)
{
    const struct first_plan *first = &plan->first;
    if (!first->wanted)
        return;
    /* The kernel wakes up all processes that use the same memory, so this is not a private futex. */
    while (__atomic_load_n(&first->shared, __ATOMIC_ACQUIRE) != 0)
        syscall(SYS_futex, &first->shared, FUTEX_WAIT, 1, NULL, NULL, 0);
    /* The kernel clears that word shortly before the first process has other memory. SELinux changes the
     * label only of a process that shares its memory with no other. unshare(2) has the same condition for
     * this flag, and does nothing else. */
    while (process_labels_open(plan) && syscall(SYS_unshare, CLONE_VM) < 0 && errno == EINVAL)
        sched_yield();
}

/* In the first process. It shares its memory with the program's process meanwhile, so it writes to nothing
 * that the other uses: only its own stack, and errno after a failure, which ends both. */

#define INSTRUCTION(...)  filter[count++] = (struct sock_filter)__VA_ARGS__
#define LOAD(field)       INSTRUCTION(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field)))
#define SKIP_UNLESS(k, n) INSTRUCTION(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(k), 0, n))
#define RETURN(action)    INSTRUCTION(BPF_STMT(BPF_RET | BPF_K, action))

/* Allow what the init needs. It may signal the program alone. A program that it executes has this filter too.
 */
static int first_load_filter(pid_t program)
{
    const struct {
        long number;
        long first; /* the only first argument that is allowed, or -1 for any */
    } allowed[] = {
        {SYS_wait4, -1},
        {SYS_rt_sigtimedwait, -1},
        {SYS_kill, program},
        {SYS_exit_group, -1},
        {SYS_prctl, PR_SET_DUMPABLE},
        {SYS_prctl, PR_SET_NAME},
        {SYS_execveat, -1},
        {SYS_mmap, -1},
        {SYS_close, FIRST_REPORT_FD},
    };
    enum { RULES = sizeof(allowed) / sizeof(allowed[0]) };
    struct sock_filter filter[4 + 5 * RULES];
    unsigned short count = 0;
    LOAD(arch);
    SKIP_UNLESS(OWN_ARCH, 0); /* to the end, see below */
    LOAD(nr);
    for (size_t i = 0; i < RULES; i++) {
        const bool any = allowed[i].first < 0;
        SKIP_UNLESS(allowed[i].number, any ? 1 : 4);
        if (!any) {
            LOAD(args[0]);
            SKIP_UNLESS(allowed[i].first, 1);
        }
        RETURN(SECCOMP_RET_ALLOW);
        if (!any)
            LOAD(nr);
    }
    RETURN(SECCOMP_RET_ERRNO | EPERM);
    filter[1].jf = (unsigned char)(count - 3);
    const struct sock_fprog fprog = {count, filter};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &fprog);
}

/* Leave the init the report as its only descriptor. The others are closed by execveat(2). */
static int leave_descriptors(const struct first_plan *first)
{
    if (first->report >= 0 && dup2(first->report, FIRST_REPORT_FD) < 0)
        return -1;
    return sys_close_range(first->report >= 0 ? FIRST_REPORT_FD + 1 : FIRST_REPORT_FD, ~0U,
                           CLOSE_RANGE_CLOEXEC);
}

static int drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[2] = {{0}};
    return (int)syscall(SYS_capset, &header, none);
}

/* With no_new_privs, execveat(2) gives no capability back. */
static int become_init(const struct first_plan *first, pid_t program, struct error *err)
{
    char number[16], name[] = "init";
    char *argv[] = {name, number, NULL}, *none[] = {NULL};
    snprintf(number, sizeof(number), "%d", (int)program);
    syscall(SYS_set_tid_address, &first->shared); /* which never fails */
    if (leave_descriptors(first) < 0 || drop_capabilities() < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || first_load_filter(program) < 0)
        return error_set(err, -errno, "confine the container's init");
    syscall(SYS_execveat, first->program, "", argv, none, AT_EMPTY_PATH);
    return error_set(err, -errno, "execute the container's init");
}

int first_enter_program(struct process_plan *plan, const char *program, int channel, struct error *err)
{
    struct task task = {.plan = plan, .program = program, .channel = channel};
    /* From now on signals wait for the init. */
    const uint64_t all = ~0ULL;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof(all));
    plan->first.shared = 1;
    pid_t pid = clone(run_task, plan->first.stack + FIRST_STACK_SIZE, CLONE_VM | SIGCHLD, &task);
    if (pid < 0)
        return error_set(err, -errno, "clone the program's process, the child of the container's init%s",
                         errno == EAGAIN ? ": a limit of processes must allow two (pids.limit, RLIMIT_NPROC)"
                                         : "");
    return become_init(&plan->first, pid, err);
}
