/* Stop a process and examine it from outside. It is changed only in its registers and, below its stack, by
 * the results of the system calls that it is made to do; ptrace(2), proc(5). */
#include "warm/dump/tracee.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/proc.h"

/* smaps of some ten thousand VMAs. */
#define MAX_TEXT (64UL << 20)

/* A stop takes microseconds, during which the CPU is only offered to others. There is no wait for a process
 * that sleeps in the kernel without end. */
#define STOP_SPINS    100
#define STOP_TRIES    20000
#define STOP_INTERVAL 250000 /* nanoseconds */

/* Return whether RAX has the value that a system call leaves when a stop has interrupted it: ERESTARTSYS to
 * ERESTART_RESTARTBLOCK (include/linux/errno.h of the kernel; never visible to a program). */
static bool is_interrupted(const struct user_regs_struct *regs)
{
    long result = (long)regs->rax;
    return (long)regs->orig_rax >= 0 && result <= -512 && result >= -516;
}

int tracee_attach(struct tracee *out, pid_t pid, const struct stat *pid_namespace, bool spare,
                  struct error *err)
{
    *out = (struct tracee){.pid = pid, .proc = -1, .memory = -1};
    out->proc = proc_open_process(pid, err);
    if (out->proc < 0)
        return out->proc;
    if (pid_namespace != NULL && proc_in_pid_namespace(out->proc, pid_namespace) != 1)
        return error_text(err, -ESRCH, "process %d does not belong to the builder", (int)pid);
    if (ptrace(PTRACE_SEIZE, pid, NULL, spare ? 0 : PTRACE_O_EXITKILL) < 0)
        return error_set(err, -errno, "trace process %d (ptrace)", (int)pid);
    out->attached = true;
    out->memory = openat(out->proc, "mem", O_RDONLY | O_CLOEXEC);
    if (out->memory < 0)
        return error_set(err, -errno, "open the memory of process %d (/proc/PID/mem)", (int)pid);
    return 0;
}

/* Wait for the next stop of the process; *status is the status from waitpid(2). */
static int wait_for_stop(const struct tracee *t, int *status, struct error *err)
{
    for (int i = 0; i < STOP_TRIES; i++) {
        pid_t got = waitpid(t->pid, status, __WALL | WNOHANG);
        if (got < 0 && errno != EINTR)
            return error_set(err, -errno, "wait for process %d", (int)t->pid);
        if (got == t->pid && WIFSTOPPED(*status))
            return 0;
        if (got == t->pid)
            return error_text(err, -ESRCH, "process %d ended", (int)t->pid);
        if (i < STOP_SPINS)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = STOP_INTERVAL}, NULL);
    }
    return error_text(err, -ETIMEDOUT, "process %d does not stop", (int)t->pid);
}

int tracee_stop(struct tracee *t, struct error *err)
{
    if (ptrace(PTRACE_INTERRUPT, t->pid, NULL, NULL) < 0)
        return error_set(err, -errno, "stop process %d", (int)t->pid);
    int status;
    int ret = wait_for_stop(t, &status, err);
    if (ret < 0)
        return ret;
    if (status >> 16 != PTRACE_EVENT_STOP) {
        t->signal = WSTOPSIG(status);
        t->parked = (struct user_regs_struct){0}; /* nothing to restart */
        return error_text(err, -ENOTSUP, "process %d got signal %d", (int)t->pid, t->signal);
    }
    if (ptrace(PTRACE_GETREGS, t->pid, NULL, &t->parked) < 0)
        return error_set(err, -errno, "read the registers of process %d", (int)t->pid);
    if (is_interrupted(&t->parked))
        return 0;
    if (ptrace(PTRACE_CONT, t->pid, NULL, NULL) < 0)
        return error_set(err, -errno, "continue process %d", (int)t->pid);
    return error_text(err, -EAGAIN, "process %d does not wait in a system call", (int)t->pid);
}

/* Execute the instruction itself again: the kernel would do so only where it interrupted the call. */
static int begin_anew(const struct tracee *t)
{
    struct user_regs_struct regs = t->parked;
    if (!is_interrupted(&regs))
        return 0;
    regs.rip -= 2;
    regs.rax = regs.orig_rax;
    regs.orig_rax = -1UL;
    return ptrace(PTRACE_SETREGS, t->pid, NULL, &regs) < 0 ? -errno : 0;
}

int tracee_resume(struct tracee *t, struct error *err)
{
    int ret = begin_anew(t);
    if (ret == 0 && ptrace(PTRACE_CONT, t->pid, NULL, (long)t->signal) < 0)
        ret = -errno;
    t->signal = 0;
    return ret < 0 ? error_set(err, ret, "continue process %d", (int)t->pid) : 0;
}

int tracee_answer(struct tracee *t, uint64_t result, struct error *err)
{
    t->parked.rax = result;
    t->parked.orig_rax = -1UL; /* nothing to restart */
    if (ptrace(PTRACE_SETREGS, t->pid, NULL, &t->parked) < 0 || ptrace(PTRACE_CONT, t->pid, NULL, NULL) < 0)
        return error_set(err, -errno, "continue process %d", (int)t->pid);
    return 0;
}

void tracee_release(struct tracee *t)
{
    if (t->attached) {
        (void)begin_anew(t);
        /* This fails if the process is not stopped, which happens only after an error. Then the end of this
         * process releases it, or kills it. */
        (void)ptrace(PTRACE_DETACH, t->pid, NULL, (long)t->signal);
    }
    t->attached = false;
    fd_close(&t->memory);
    fd_close(&t->proc);
}

uint64_t tracee_scratch(const struct tracee *t)
{
    /* The 128 bytes below the stack belong to the running function (System V ABI for x86-64, 3.2.2). */
    return ((t->parked.rsp - 128) & ~63ULL) - 2048;
}

int tracee_call(struct tracee *t, long number, const uint64_t arguments[6], long *result, struct error *err)
{
    struct user_regs_struct regs = t->parked;
    regs.rip -= 2;
    regs.rax = (uint64_t)number;
    regs.orig_rax = -1UL; /* nothing to restart */
    regs.rdi = arguments[0];
    regs.rsi = arguments[1];
    regs.rdx = arguments[2];
    regs.r10 = arguments[3];
    regs.r8 = arguments[4];
    regs.r9 = arguments[5];
    if (ptrace(PTRACE_SETREGS, t->pid, NULL, &regs) < 0 || ptrace(PTRACE_SINGLESTEP, t->pid, NULL, NULL) < 0)
        return error_set(err, -errno, "make a system call in process %d", (int)t->pid);
    int status;
    int ret = wait_for_stop(t, &status, err);
    if (ret < 0)
        return ret;
    if (status >> 16 != 0 || WSTOPSIG(status) != SIGTRAP) {
        t->signal = status >> 16 == 0 ? WSTOPSIG(status) : 0;
        return error_text(err, -ENOTSUP, "process %d got signal %d", (int)t->pid, WSTOPSIG(status));
    }
    if (ptrace(PTRACE_GETREGS, t->pid, NULL, &regs) < 0)
        return error_set(err, -errno, "read the registers of process %d", (int)t->pid);
    if (regs.rip != t->parked.rip)
        return error_text(err, -ENOTSUP, "process %d does not wait at a system call's instruction",
                          (int)t->pid);
    *result = (long)regs.rax;
    return 0;
}

/* Not by process_vm_readv(2), although it copies once and this twice. It pins pages, and the kernel first
 * copies pages that are shared after a fork (Linux 5.19). */
int tracee_read(const struct tracee *t, uint64_t address, void *data, size_t size, struct error *err)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = RETRY(pread(t->memory, (char *)data + done, size - done, (off_t)(address + done)));
        if (n <= 0)
            return error_set(err, n < 0 ? -errno : -EIO, "read memory of process %d at %#lx", (int)t->pid,
                             (unsigned long)(address + done));
        done += (size_t)n;
    }
    return 0;
}

int tracee_file(const struct tracee *t, struct arena *a, const char *name, char **text, size_t *size,
                struct error *err)
{
    int ret = io_read_file_at(a, t->proc, name, MAX_TEXT, text, size);
    return ret < 0 ? error_set(err, ret, "read '/proc/%d/%s'", (int)t->pid, name) : 0;
}
