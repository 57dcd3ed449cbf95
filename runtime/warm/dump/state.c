/* Registers, signals and the kernel's data on the layout of a process. The stopped process itself makes the
 * system calls for data that ptrace(2) and /proc do not show. x86-64. */
#include "warm/dump/state.h"

#include <asm/prctl.h>
#include <elf.h>
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "warm/dump/text.h"
#include "warm/dump/tracee.h"
#include "warm/snapshot/snapshot.h"

/* Since Linux 5.13; the headers of older systems lack them. */
#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif
struct rseq_configuration {
    uint64_t address;
    uint32_t size, signature, flags, padding;
};

/* The structures that the kernel's system calls write. */
struct kernel_stack {
    uint64_t sp;
    uint32_t flags, padding;
    uint64_t size;
};

/* Make a call whose result is in memory, and read it to `data`. */
static int ask(struct tracee *t, long number, const uint64_t arguments[6], void *data, size_t size,
               struct error *err)
{
    long result;
    int ret = tracee_call(t, number, arguments, &result, err);
    if (ret < 0)
        return ret;
    if (result < 0)
        return error_set(err, (int)result, "system call %ld in process %d", number, (int)t->pid);
    return tracee_read(t, tracee_scratch(t), data, size, err);
}

/* A question costs two switches between processes, so ask only for signals whose action is not the default.
 * Of SIGCHLD the flags count also then (SA_NOCLDWAIT). */
static int read_signals(struct tracee *t, struct arena *a, struct snapshot_header *out, struct error *err)
{
    char *status;
    uint64_t set;
    int known = tracee_file(t, a, "status", &status, NULL, err);
    if (known < 0)
        return known;
    if (!dump_text_signals(status, &set))
        return error_text(err, -EINVAL, "read '/proc/%d/status': signals are missing", (int)t->pid);
    set |= 1ULL << (SIGCHLD - 1);
    for (int i = 0; i < SNAPSHOT_SIGNALS; i++) {
        if ((set & 1ULL << i) == 0)
            continue;
        uint64_t arguments[6] = {(uint64_t)i + 1, 0, tracee_scratch(t), sizeof(uint64_t)};
        int ret = ask(t, SYS_rt_sigaction, arguments, &out->signals[i], sizeof(struct snapshot_signal), err);
        if (ret < 0)
            return ret;
    }
    struct kernel_stack stack;
    uint64_t arguments[6] = {0, tracee_scratch(t)};
    int ret = ask(t, SYS_sigaltstack, arguments, &stack, sizeof(stack), err);
    out->thread.altstack = stack.sp;
    out->thread.altstack_size = stack.size;
    out->thread.altstack_flags = stack.flags;
    return ret;
}

static int read_registers(const struct tracee *t, struct snapshot_thread *out, struct error *err)
{
    const struct user_regs_struct *r = &t->parked;
    out->rip = r->rip;
    out->rsp = r->rsp;
    out->rbp = r->rbp;
    out->rbx = r->rbx;
    out->r12 = r->r12;
    out->r13 = r->r13;
    out->r14 = r->r14;
    out->r15 = r->r15;
    out->flags = r->eflags;
    out->fs_base = r->fs_base;
    out->gs_base = r->gs_base;
    struct iovec fpu = {out->fpu, sizeof(out->fpu)};
    if (ptrace(PTRACE_GETREGSET, t->pid, NT_PRFPREG, &fpu) < 0 || fpu.iov_len != sizeof(out->fpu))
        return error_set(err, -errno, "read the registers of process %d", (int)t->pid);
    if (ptrace(PTRACE_GETSIGMASK, t->pid, sizeof(out->signal_mask), &out->signal_mask) < 0)
        return error_set(err, -errno, "read the signal mask of process %d", (int)t->pid);
    struct rseq_configuration rseq;
    if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, t->pid, sizeof(rseq), &rseq) < 0)
        return error_set(err, -errno, "read the restartable sequences of process %d (Linux 5.13)",
                         (int)t->pid);
    out->rseq = rseq.address;
    out->rseq_size = rseq.address != 0 ? rseq.size : 0;
    out->rseq_signature = rseq.signature;
    return 0;
}

/* Read the number by which the process knows itself: the last of its namespaces. */
static int own_pid(const struct tracee *t, struct arena *a, int *pid, struct error *err)
{
    char *status;
    int ret = tracee_file(t, a, "status", &status, NULL, err);
    if (ret < 0)
        return ret;
    *pid = dump_text_own_pid(status);
    return *pid > 0
               ? 0
               : error_text(err, -ENOTSUP,
                            "the kernel does not report the pid of process %d in its namespace", (int)t->pid);
}

/* The C library keeps the thread's number at the address that the kernel clears at the end of the thread
 * (glibc: pthread.tid; clone(2), CLONE_CHILD_CLEARTID). A restored thread has another number, so the word
 * must be this one. */
static int read_tid(struct tracee *t, struct arena *a, struct snapshot_thread *out, struct error *err)
{
    uint64_t arguments[6] = {PR_GET_TID_ADDRESS, tracee_scratch(t)};
    int ret = ask(t, SYS_prctl, arguments, &out->tid_address, sizeof(out->tid_address), err);
    if (ret < 0)
        return ret;
    int pid = 0, word = 0;
    ret = own_pid(t, a, &pid, err);
    if (ret < 0)
        return ret;
    if (out->tid_address != 0 && (ret = tracee_read(t, out->tid_address, &word, sizeof(word), err)) < 0)
        return ret;
    if (out->tid_address == 0 || word != pid)
        return error_text(err, -ENOTSUP, "its C library keeps the thread's number at an unknown address");
    return 0;
}

static int read_robust_list(struct tracee *t, struct snapshot_thread *out, struct error *err)
{
    struct robust_list_head *address = NULL, head;
    size_t size = 0;
    if (syscall(SYS_get_robust_list, t->pid, &address, &size) < 0)
        return error_set(err, -errno, "get_robust_list of process %d", (int)t->pid);
    out->robust_list = (uintptr_t)address;
    out->robust_list_size = size;
    if (address == NULL)
        return 0;
    int ret = tracee_read(t, out->robust_list, &head, sizeof(head), err);
    if (ret < 0)
        return ret;
    if ((void *)head.list.next != (void *)address || head.list_op_pending != NULL)
        return error_text(err, -ENOTSUP, "it holds a robust mutex");
    return 0;
}

static int read_stat(struct tracee *t, struct arena *a, struct snapshot_memory *out, struct error *err)
{
    char *stat;
    int ret = tracee_file(t, a, "stat", &stat, NULL, err);
    if (ret < 0)
        return ret;
    return dump_text_layout(stat, out) ? 0 : error_text(err, -EINVAL, "read '/proc/%d/stat'", (int)t->pid);
}

static int read_memory(struct tracee *t, struct arena *a, struct snapshot_memory *out, struct error *err)
{
    int ret = read_stat(t, a, out, err);
    if (ret != 0)
        return ret;
    char *auxv;
    size_t size;
    ret = tracee_file(t, a, "auxv", &auxv, &size, err);
    if (ret < 0)
        return ret;
    if (size > sizeof(out->auxv) || size % (2 * sizeof(uint64_t)) != 0)
        return error_text(err, -ENOTSUP, "its auxiliary vector has %zu bytes", size);
    memcpy(out->auxv, auxv, size);
    out->auxv_count = size / sizeof(uint64_t);
    long result;
    ret = tracee_call(t, SYS_brk, (uint64_t[6]){0}, &result, err);
    out->brk = (uint64_t)result;
    return ret;
}

int dump_state_read(struct tracee *t, struct arena *a, struct snapshot_header *out, struct error *err)
{
    int ret = read_registers(t, &out->thread, err);
    if (ret < 0)
        return ret;
    ret = read_signals(t, a, out, err);
    if (ret < 0)
        return ret;
    ret = read_tid(t, a, &out->thread, err);
    if (ret < 0)
        return ret;
    ret = read_robust_list(t, &out->thread, err);
    if (ret < 0)
        return ret;
    return read_memory(t, a, &out->memory, err);
}
