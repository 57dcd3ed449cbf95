/* Make the snapshot of a parked process, step by step: stop it, refuse or read, write (warm/dump/dump.h). The
 * process is changed only below its stack. */
#include "warm/dump/dump.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "warm/dump/base.h"
#include "warm/dump/contents.h"
#include "warm/dump/copied.h"
#include "warm/dump/descriptors.h"
#include "warm/dump/files.h"
#include "warm/dump/guard.h"
#include "warm/dump/join.h"
#include "warm/dump/state.h"
#include "warm/dump/tracee.h"
#include "warm/dump/vmas.h"
#include "warm/dump/writes.h"
#include "warm/params.h"
#include "warm/snapshot/snapshot.h"

/* The process reports that it is about to park, looks at its heap, which may be large, and parks. Seconds,
 * and nanoseconds between two looks at it. */
#define PARK_MOST     3
#define PARK_INTERVAL 200000

/* A program that waits to be saved has more to do between: it is looked at every ten milliseconds. When it is
 * asked to fork, hooks of its modules run first: ten seconds. */
#define WAIT_INTERVAL 10000000
#define FORK_TRIES    10000
#define FORK_INTERVAL 1000000

/* Bytes of a reason that a process gives. */
#define TEXT_SIZE 256

/* Pieces of this size are written at once, at positions where the page cache can hold a piece that one fault
 * maps as a whole (since Linux 6.18). Larger pieces save faults; smaller ones leave unmapped what an idle
 * container does not read. */
#define COPY_SIZE     (128UL << 10)
#define SMALLEST_PAGE 4096

static bool is_in_agent(const struct dump_vmas *vmas, uint64_t address)
{
    for (size_t i = 0; i < vmas->vma_count; i++) {
        const struct snapshot_vma *a = &vmas->vmas[i];
        if (a->start <= address && address < a->end)
            return (a->flags & SNAPSHOT_VMA_FILE) != 0 && a->file == SNAPSHOT_FILE_AGENT &&
                   (a->prot & PROT_EXEC) != 0;
    }
    return false;
}

/* The process must stop where the agent parks: only there does the agent take over after the restore. */
static int stop_parked(struct tracee *t, const struct dump_request *request, struct arena *a,
                       struct dump_vmas *vmas, struct error *err)
{
    struct timespec now, began;
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (now = began; now.tv_sec - began.tv_sec < PARK_MOST; clock_gettime(CLOCK_MONOTONIC, &now)) {
        int ret = tracee_stop(t, err);
        if (ret == 0 && (long)t->parked.orig_rax == request->park &&
            (request->waits == 0 || t->parked.r9 == request->waits)) {
            ret = dump_vmas_read(t, a, request->agent_path, vmas, err);
            if (ret < 0 || is_in_agent(vmas, t->parked.rip))
                return ret;
        }
        if (ret == 0)
            ret = tracee_resume(t, err);
        if (ret < 0 && ret != -EAGAIN)
            return ret;
        nanosleep(&(struct timespec){.tv_nsec = request->waits != 0 ? WAIT_INTERVAL : PARK_INTERVAL}, NULL);
    }
    if (request->waits != 0)
        return error_text(err, -ENOTSUP,
                          "its program does not wait in __pysbx_park__: see Checkpoints in pysbx-runtime(8)");
    return error_text(err, -ENOTSUP, "process %d does not wait in '%s'", (int)t->pid, request->agent_path);
}

/* The output for the pages of the snapshot, in pieces that end at multiples of COPY_SIZE. */
struct output {
    int fd;
    char *piece; /* memory for pages that are read now */
    size_t filled;
    uint64_t offset; /* of the piece */
    struct iovec *parts;
    int count; /* of the parts */
};

static size_t room(const struct output *out)
{
    return COPY_SIZE - out->offset % COPY_SIZE - out->filled;
}

static int flush(struct output *out, struct error *err)
{
    ssize_t n = RETRY(pwritev(out->fd, out->parts, out->count, (off_t)out->offset));
    if (n != (ssize_t)out->filled)
        return error_set(err, n < 0 ? -errno : -ENOSPC, "write the snapshot");
    out->offset += out->filled;
    out->filled = 0;
    out->count = 0;
    return 0;
}

static void put(struct output *out, const char *data, size_t size)
{
    struct iovec *last = out->count > 0 ? &out->parts[out->count - 1] : NULL;
    if (last != NULL && (char *)last->iov_base + last->iov_len == data)
        last->iov_len += size;
    else
        out->parts[out->count++] = (struct iovec){(void *)(uintptr_t)data, size};
    out->filled += size;
}

static int write_extent(const struct tracee *t, struct dump_contents *contents, uint64_t address,
                        uint64_t size, struct output *out, struct error *err)
{
    for (uint64_t done = 0; done < size; done += contents->page) {
        const struct dump_content *known = dump_contents_find(contents, address + done);
        const char *data = known != NULL ? known->data : NULL;
        if (data == NULL) {
            char *to = out->piece + out->filled;
            int ret = tracee_read(t, address + done, to, contents->page, err);
            if (ret < 0)
                return ret;
            data = to;
        }
        put(out, data, contents->page);
        int ret = room(out) == 0 ? flush(out, err) : 0;
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int write_pages(const struct tracee *t, struct dump_contents *contents,
                       const struct snapshot_parts *parts, int fd, struct error *err)
{
    cleanup_free char *piece = malloc(COPY_SIZE);
    struct iovec pieces[COPY_SIZE / SMALLEST_PAGE];
    if (piece == NULL)
        return error_set(err, -ENOMEM, "write the snapshot");
    struct output out = {.fd = fd, .piece = piece, .offset = parts->header.tables_size, .parts = pieces};
    for (size_t i = 0; i < parts->extent_count; i++) {
        const struct snapshot_extent *r = &parts->extents[i];
        if (r->of_base != 0)
            continue;
        if (r->offset != out.offset + out.filled)
            return error_set(err, -EINVAL, "position of pages in the snapshot");
        int ret = write_extent(t, contents, r->address, r->pages * parts->header.page_size, &out, err);
        if (ret < 0)
            return ret;
    }
    for (size_t i = 0; i < parts->patch_count; i++) {
        const struct snapshot_patch *p = &parts->patches[i];
        int ret = write_extent(t, contents, p->address, p->pages * parts->header.page_size, &out, err);
        if (ret < 0)
            return ret;
    }
    return out.count > 0 ? flush(&out, err) : 0;
}

/* Return from where on its stack is used: from 128 bytes below the pointer (System V ABI for x86-64, "The
 * Stack Frame"). Signals may overwrite what is lower. Return 0 if that is not known, because the alternate
 * stack of a signal handler may be in the middle of the stack. */
static uint64_t stack_used(const struct snapshot_thread *thread)
{
    return (thread->altstack_flags & SS_ONSTACK) == 0 ? thread->rsp - 128 : 0;
}

/* Read the state of the process except its pages. */
static int examine(struct tracee *t, const struct dump_request *request, struct arena *a,
                   struct dump_vmas *vmas, struct snapshot_parts *parts, struct error *err)
{
    int ret = stop_parked(t, request, a, vmas, err);
    if (ret < 0)
        return ret;
    ret = dump_guard_layout(vmas, a, err);
    if (ret < 0)
        return ret;
    if (request->agent != NULL)
        ret = dump_guard_agent(t, vmas, request->agent, request->agent_size, err);
    if (ret < 0)
        return ret;
    ret = dump_state_check(t, a, true, err);
    if (ret < 0)
        return ret;
    ret = dump_state_read(t, a, &parts->header, err);
    if (ret < 0)
        return ret;
    ret = dump_files(t, request, vmas, a, parts, err);
    if (ret < 0)
        return ret;
    return dump_descriptors(t, request, a, parts, err);
}

static int dump(struct tracee *t, const struct dump_request *request, struct arena *a, struct error *err)
{
    struct dump_vmas vmas = {0};
    __attribute__((cleanup(dump_contents_close))) struct dump_contents contents = {0};
    struct snapshot_parts *parts = ARENA_NEW(a, struct snapshot_parts);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    int ret = tracee_attach(t, request->pid, request->pid_namespace, request->spare, err);
    if (ret < 0)
        return ret;
    ret = examine(t, request, a, &vmas, parts, err);
    if (ret < 0)
        return ret;
    ret = dump_copied_mark(t, &parts->header.memory, request->base != NULL, a, &vmas, err);
    if (ret < 0)
        return ret;
    ret = dump_contents_open(&contents, request->base, &vmas, a, err);
    if (ret < 0)
        return ret;
    vmas.stack_used = stack_used(&parts->header.thread);
    ret = dump_vmas_scan(t, a, &vmas, &contents, err);
    if (ret < 0)
        return ret;
    dump_copied_unmark(&vmas);
    dump_vmas_join(&vmas, page, (parts->header.memory.brk + page - 1) & ~(page - 1));
    dump_copied_divide(a, &vmas, page);
    snapshot_host_now(&parts->header.host);
    memcpy(parts->header.vdso, vmas.vdso, sizeof(vmas.vdso));
    parts->header.vdso_count = vmas.vdso_count;
    parts->vmas = vmas.vmas;
    parts->vma_count = vmas.vma_count;
    parts->extents = vmas.extents;
    parts->extent_count = vmas.extent_count;
    dump_writes(request->rehearsal, request->pid_namespace, a, parts);
    parts->meta = request->meta;
    parts->meta_size = request->meta_size;
    ret = dump_guard_size(parts, page, request->limit, err);
    if (ret < 0)
        return ret;
    if (request->base != NULL)
        ret = dump_base_leave_out(t, request->base, &vmas, &contents, a, parts, err);
    if (ret < 0)
        return ret;
    ret = snapshot_write(request->out, parts, err);
    if (ret < 0)
        return ret;
    ret = write_pages(t, &contents, parts, request->out, err);
    if (ret < 0)
        return ret;
    return dump_guard_rseq(request->out, request->base != NULL ? request->base->fd : -1, parts, page, err);
}

/* Read the text that the process has at the address, for a message. */
static const char *read_text(const struct tracee *t, uint64_t address, struct arena *a)
{
    char text[TEXT_SIZE] = {0};
    struct error ignored = {0};
    for (size_t i = 0; i + 1 < sizeof(text); i++)
        if (tracee_read(t, address + i, &text[i], 1, &ignored) < 0 || text[i] == '\0')
            break;
    return str_printable(a, text);
}

/* Wait for the child of a process that was asked to fork. If the process waits again, it has a reason. */
static int await_fork(struct tracee *t, const struct dump_request *request, struct arena *a, pid_t *child,
                      struct error *err)
{
    for (int i = 0; i < FORK_TRIES; i++) {
        char *children;
        int ret = tracee_file(t, a, arena_printf(a, "task/%d/children", (int)t->pid), &children, NULL, err);
        if (ret < 0)
            return ret;
        *child = (pid_t)strtol(children, NULL, 10);
        ret = tracee_stop(t, err);
        if (ret == 0 && *child > 0)
            return 0;
        if (ret == 0 && (long)t->parked.orig_rax == request->park && t->parked.r9 == request->waits)
            return error_text(err, -ENOTSUP, "%s",
                              t->parked.r8 != 0 ? read_text(t, t->parked.r8, a) : "it does not fork");
        if (ret == 0 || t->signal != 0)
            ret = tracee_resume(t, err);
        if (ret < 0 && ret != -EAGAIN)
            return ret;
        nanosleep(&(struct timespec){.tv_nsec = FORK_INTERVAL}, NULL);
    }
    return error_text(err, -ETIMEDOUT, "it does not fork");
}

/* Ask the process for a fork when it waits for that. */
static int ask_for_fork(struct tracee *t, const struct dump_request *request, struct arena *a, pid_t *child,
                        struct error *err)
{
    struct dump_vmas vmas = {0};
    char *maps;
    int ret = tracee_attach(t, request->pid, request->pid_namespace, true, err);
    if (ret < 0)
        return ret;
    ret = tracee_file(t, a, "maps", &maps, NULL, err);
    if (ret < 0)
        return ret;
    if (strstr(maps, request->agent_path) == NULL)
        return error_text(
            err, -ENOTSUP,
            "its program is no Python that was started warm: see Checkpoints in pysbx-runtime(8)");
    ret = stop_parked(t, request, a, &vmas, err);
    if (ret < 0)
        return ret;
    ret = dump_guard_agent(t, &vmas, request->agent, request->agent_size, err);
    if (ret < 0)
        return ret;
    ret = dump_state_check(t, a, false, err);
    if (ret < 0)
        return ret;
    ret = tracee_answer(t, WARM_WAIT_FORK, err);
    return ret < 0 ? ret : await_fork(t, request, a, child, err);
}

int warm_dump_fork(const struct dump_request *request, pid_t *child, struct error *err)
{
    cleanup_arena struct arena arena = {0};
    struct tracee tracee;
    *child = 0;
    int ret = ask_for_fork(&tracee, request, &arena, child, err);
    tracee_release(&tracee);
    return ret < 0 ? error_wrap(err, "process %d", (int)request->pid) : 0;
}

/* Check the snapshot as the restore will, so that a process that cannot be restored is found while its
 * builder exists. */
static int check_snapshot(int fd, struct error *err)
{
    struct snapshot snapshot;
    int ret = snapshot_open(fd, &snapshot, err);
    if (ret < 0)
        return ret;
    snapshot_close(&snapshot);
    return 0;
}

int warm_dump(const struct dump_request *request, struct error *err)
{
    cleanup_arena struct arena arena = {0};
    struct tracee tracee;
    int ret = dump(&tracee, request, &arena, err);
    tracee_release(&tracee);
    if (ret == 0)
        ret = check_snapshot(request->out, err);
    if (ret == 0)
        return 0;
    error_classify(err, error_kind_by_code(ret, ERROR_NOT_MADE), ret);
    return error_wrap(err, "snapshot of process %d", (int)request->pid);
}
