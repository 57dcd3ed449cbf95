/* The steps of a restore that make the process what it was, except its memory, and the final steps. They make
 * steps and ask questions; they change nothing. */
#include <asm/prctl.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "warm/restore/plan.h"
#include "warm/restore/request.h"

#ifndef SYS_rseq
#define SYS_rseq 334
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define RSEQ_UNREGISTER 1

static uint64_t pointer(const void *p)
{
    return (uint64_t)p;
}

void restore_plan_leave(struct restore_plan *plan)
{
    /* The runtime has no handlers, but its memory is about to go: no signal may arrive in between. */
    static const uint64_t all = ~0ULL;
    restore_step(&plan->rest, REPORT_SIGNALS, 0, SYS_rt_sigprocmask, SIG_SETMASK,
                 pointer(restore_plan_copy(plan, &all, sizeof(all))), 0, sizeof(all));
    /* The kernel writes there whenever the process is scheduled, and ends the process if it cannot. */
    if (plan->own_rseq != 0)
        restore_step(&plan->rest, REPORT_RSEQ, 0, SYS_rseq, plan->own_rseq, plan->own_rseq_size,
                     RSEQ_UNREGISTER, plan->own_rseq_signature);
}

static void set_signals(struct restore_plan *plan)
{
    const struct snapshot_signal *signals = plan->snapshot->header->signals;
    for (int i = 0; i < SNAPSHOT_SIGNALS; i++)
        if (i + 1 != SIGKILL && i + 1 != SIGSTOP)
            restore_step(&plan->rest, REPORT_SIGNALS, 0, SYS_rt_sigaction, (uint64_t)i + 1,
                         pointer(restore_plan_copy(plan, &signals[i], sizeof(signals[i]))), 0,
                         sizeof(signals[i].mask));
}

static void set_thread(struct restore_plan *plan)
{
    const struct snapshot_thread *t = &plan->snapshot->header->thread;
    restore_step(&plan->rest, REPORT_THREAD, 0, SYS_arch_prctl, ARCH_SET_FS, t->fs_base);
    restore_step(&plan->rest, REPORT_THREAD, 0, SYS_arch_prctl, ARCH_SET_GS, t->gs_base);
    /* The C library's copy of the number becomes the new one. */
    restore_step(&plan->rest, REPORT_THREAD, RESTORER_STORE, SYS_set_tid_address, t->tid_address);
    if (t->robust_list != 0)
        restore_step(&plan->rest, REPORT_THREAD, 0, SYS_set_robust_list, t->robust_list, t->robust_list_size);
    if (t->rseq != 0)
        restore_step(&plan->rest, REPORT_RSEQ, 0, SYS_rseq, t->rseq, t->rseq_size, 0, t->rseq_signature);
}

/* Make the auxiliary vector with this process's identity. */
static const uint64_t *make_auxv(struct restore_plan *plan)
{
    const struct snapshot_memory *m = &plan->snapshot->header->memory;
    const struct {
        uint64_t type, value;
    } own[] = {
        {AT_UID, getuid()}, {AT_EUID, geteuid()}, {AT_GID, getgid()}, {AT_EGID, getegid()}, {AT_SECURE, 0},
    };
    uint64_t *auxv = restore_plan_copy(plan, m->auxv, sizeof(m->auxv));
    for (size_t i = 0; i < m->auxv_count; i += 2)
        for (size_t k = 0; k < sizeof(own) / sizeof(*own); k++)
            if (auxv[i] == own[k].type)
                auxv[i + 1] = own[k].value;
    return auxv;
}

static void set_layout(struct restore_plan *plan)
{
    const struct snapshot_memory *m = &plan->snapshot->header->memory;
    const struct prctl_mm_map map = {
        .start_code = m->start_code,
        .end_code = m->end_code,
        .start_data = m->start_data,
        .end_data = m->end_data,
        .start_brk = m->start_brk,
        .brk = m->brk,
        .start_stack = m->start_stack,
        .arg_start = plan->argument_start,
        .arg_end = plan->argument_end,
        .env_start = plan->environment_start,
        .env_end = plan->environment_end,
        .auxv = (void *)(uintptr_t)make_auxv(plan),
        .auxv_size = (uint32_t)(m->auxv_count * sizeof(uint64_t)),
        .exe_fd = (uint32_t)-1, /* /proc/PID/exe stays unchanged, which needs no privilege */
    };
    restore_step(&plan->rest, REPORT_LAYOUT, 0, SYS_prctl, PR_SET_MM, PR_SET_MM_MAP,
                 pointer(restore_plan_copy(plan, &map, sizeof(map))), sizeof(map));
}

void restore_plan_process(struct restore_plan *plan)
{
    set_signals(plan);
    set_thread(plan);
    set_layout(plan);
    char name[16] = {0};
    strncpy(name, plan->request->comm, sizeof(name) - 1);
    restore_step(&plan->rest, REPORT_NAME, 0, SYS_prctl, PR_SET_NAME,
                 pointer(restore_plan_copy(plan, name, sizeof(name))));
}

static void open_descriptors(struct restore_plan *plan)
{
    const struct snapshot_header *h = plan->snapshot->header;
    for (size_t i = 0; i < h->descriptor_count; i++) {
        const struct snapshot_descriptor *d = &h->descriptors[i];
        int file = d->file == SNAPSHOT_FILE_URANDOM ? plan->urandom : plan->files[d->file];
        restore_step(&plan->rest, REPORT_DESCRIPTOR, 0, SYS_dup3, (uint64_t)file, d->fd,
                     d->close_on_exec != 0 ? O_CLOEXEC : 0);
        /* It was opened without blocking, because it could have been any file. */
        restore_step(&plan->rest, REPORT_DESCRIPTOR, 0, SYS_fcntl, d->fd, F_SETFL, 0);
        restore_step(&plan->rest, REPORT_DESCRIPTOR, 0, SYS_lseek, d->fd, d->position, SEEK_SET);
    }
}

/* Descriptors that are not closed with the others: the report, the labels, the snapshot's own. */
#define KEPT_MAX (3 + SNAPSHOT_MAX_DESCRIPTORS)

/* Return the lowest of them from `first` on, ~0U for none. */
static unsigned next_kept(const int *kept, size_t count, unsigned first)
{
    unsigned next = ~0U;
    for (size_t i = 0; i < count; i++)
        if (kept[i] >= 0 && (unsigned)kept[i] >= first && (unsigned)kept[i] < next)
            next = (unsigned)kept[i];
    return next;
}

/* Close descriptors like execve(2), and those above the ones that are passed on. */
static void close_descriptors(struct restore_plan *plan, const int *kept, size_t count)
{
    unsigned first = plan->request->finish.close_from;
    for (unsigned fd = 0; fd < first; fd++) {
        int flags = fcntl((int)fd, F_GETFD);
        if (flags >= 0 && (flags & FD_CLOEXEC) != 0 && next_kept(kept, count, fd) != fd)
            restore_step(&plan->rest, REPORT_CLOSE, 0, SYS_close, fd);
    }
    for (;;) {
        unsigned next = next_kept(kept, count, first);
        if (next > first)
            restore_step(&plan->rest, REPORT_CLOSE, 0, SYS_close_range, first, next - (next != ~0U));
        if (next == ~0U)
            return;
        first = next + 1;
    }
}

static void load_filter(struct restore_plan *plan, const struct restore_finish *finish)
{
    const struct sock_fprog *filter = finish->filter;
    struct sock_fprog copy = {
        .len = filter->len,
        .filter = restore_plan_copy(plan, filter->filter, filter->len * sizeof(*filter->filter)),
    };
    restore_step(&plan->rest, REPORT_FILTER, 0, SYS_seccomp, SECCOMP_SET_MODE_FILTER, finish->filter_flags,
                 pointer(restore_plan_copy(plan, &copy, sizeof(copy))));
}

static void set_capabilities(struct restore_plan *plan, const struct restore_finish *finish)
{
    const struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    restore_step(&plan->rest, REPORT_CAPABILITIES, 0, SYS_capset,
                 pointer(restore_plan_copy(plan, &header, sizeof(header))),
                 pointer(restore_plan_copy(plan, finish->caps, 2 * sizeof(*finish->caps))));
}

static void take_labels(struct restore_plan *plan, const struct restore_finish *finish)
{
    for (size_t i = 0; i < sizeof(finish->labels) / sizeof(finish->labels[0]); i++) {
        const struct restore_label *label = &finish->labels[i];
        if (label->text == NULL)
            continue;
        size_t size = strlen(label->text);
        restore_step(&plan->rest, REPORT_LABEL, 0, SYS_write, (uint64_t)label->fd,
                     pointer(restore_plan_copy(plan, label->text, size)), size);
        restore_step(&plan->rest, REPORT_CLOSE, 0, SYS_close, (uint64_t)label->fd);
    }
}

void restore_plan_finish(struct restore_plan *plan, int report_fd)
{
    const struct restore_finish *finish = &plan->request->finish;
    int kept[KEPT_MAX] = {report_fd};
    size_t count = 1;
    for (size_t i = 0; i < sizeof(finish->labels) / sizeof(finish->labels[0]); i++)
        if (finish->labels[i].text != NULL)
            kept[count++] = finish->labels[i].fd;
    open_descriptors(plan);
    for (size_t i = 0; i < plan->snapshot->header->descriptor_count; i++)
        kept[count++] = (int)plan->snapshot->header->descriptors[i].fd;
    close_descriptors(plan, kept, count);
    if (finish->filter != NULL && finish->filter_by_privilege)
        load_filter(plan, finish);
    if (finish->caps != NULL)
        set_capabilities(plan, finish);
    take_labels(plan, finish);
    if (finish->filter != NULL && !finish->filter_by_privilege)
        load_filter(plan, finish);
    /* The last sign of life: its end tells the runtime that everything has succeeded. */
    if (report_fd >= 0)
        restore_step(&plan->rest, REPORT_CLOSE, 0, SYS_close, (uint64_t)report_fd);
    /* execve(2) leaves a program without new credentials dumpable too. This comes last. From then on, other
     * processes in the container may trace this one, and would otherwise have it without filter and with the
     * descriptor. */
    restore_step(&plan->rest, REPORT_NAME, RESTORER_HINT, SYS_prctl, PR_SET_DUMPABLE, 1);
    plan->work->steps = plan->rest.steps;
    plan->work->step_count = plan->rest.count;
    plan->work->report_fd = report_fd;
}
