/* The checks of warm/dump/guard.h. x86-64; linux/rseq.h, proc(5). */
#include "warm/dump/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/proc.h"
#include "base/str.h"
#include "warm/dump/text.h"
#include "warm/dump/tracee.h"
#include "warm/dump/vmas.h"
#include "warm/snapshot/snapshot.h"

#define MAX_MAPS (16UL << 20)

/* struct rseq: the pointer to the description of the sequence. */
#define RSEQ_CS_OFFSET 8

static uint64_t vdso_of(const struct snapshot_vdso *vdso, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(vdso[i].name, "[vdso]") == 0)
            return vdso[i].start;
    return 0;
}

/* Read the vdso and vvar areas of this process. */
static int own_vdso(struct arena *a, struct snapshot_vdso out[SNAPSHOT_MAX_VDSO], size_t *count,
                    struct error *err)
{
    char *text;
    cleanup_fd int fd = proc_open("self/maps", O_RDONLY, err);
    if (fd < 0)
        return fd;
    int ret = io_read_fd(a, fd, MAX_MAPS, &text, NULL);
    if (ret < 0)
        return error_set(err, ret, "read '/proc/self/maps'");
    *count = dump_text_vdso(text, out, SNAPSHOT_MAX_VDSO);
    return 0;
}

int dump_guard_layout(const struct dump_vmas *vmas, struct arena *a, struct error *err)
{
    struct snapshot_vdso own[SNAPSHOT_MAX_VDSO];
    size_t count = 0;
    int ret = own_vdso(a, own, &count, err);
    if (ret < 0)
        return ret;
    uint64_t here = vdso_of(own, count), there = vdso_of(vmas->vdso, vmas->vdso_count);
    bool same = count == vmas->vdso_count && here != 0 && there != 0;
    for (size_t i = 0; same && i < count; i++)
        same = strcmp(own[i].name, vmas->vdso[i].name) == 0 &&
               own[i].start - here == vmas->vdso[i].start - there &&
               own[i].end - here == vmas->vdso[i].end - there;
    return same ? 0 : error_text(err, -ENOTSUP, "it has moved the vdso and vvar areas");
}

int dump_guard_agent(const struct tracee *t, const struct dump_vmas *vmas, const void *agent, size_t size,
                     struct error *err)
{
    for (size_t i = 0; i < vmas->vma_count; i++) {
        const struct snapshot_vma *vma = &vmas->vmas[i];
        if ((vma->flags & SNAPSHOT_VMA_FILE) == 0 || vma->file != SNAPSHOT_FILE_AGENT ||
            (vma->prot & PROT_EXEC) == 0)
            continue;
        uint64_t length = vma->end - vma->start, rest = vma->offset < size ? size - vma->offset : 0;
        if (length > rest)
            length = rest; /* after the end of the file there are zeros */
        cleanup_free char *content = malloc(length + 1);
        if (content == NULL)
            return error_set(err, -ENOMEM, "compare the agent");
        int ret = tracee_read(t, vma->start, content, length, err);
        if (ret < 0)
            return ret;
        if (length == 0 || memcmp(content, (const char *)agent + vma->offset, length) != 0)
            return error_text(err, -ENOTSUP, "it was started by another version of the runtime");
    }
    return 0;
}

int dump_guard_size(const struct snapshot_parts *parts, uint64_t page, uint64_t limit, struct error *err)
{
    uint64_t pages = 0;
    for (size_t i = 0; i < parts->extent_count; i++)
        pages += parts->extents[i].pages;
    if (limit == 0 || pages <= limit / page)
        return 0;
    return error_text(err, -EFBIG, "it has %" PRIu64 " bytes, and %" PRIu64 " are allowed", pages * page,
                      limit);
}

static int read_sequence(int file, uint64_t offset, uint64_t *sequence, struct error *err)
{
    ssize_t n = pread(file, sequence, sizeof(*sequence), (off_t)offset);
    return n == (ssize_t)sizeof(*sequence) ? 0 : error_set(err, n < 0 ? -errno : -EIO, "read the snapshot");
}

int dump_guard_rseq(int file, int base, const struct snapshot_parts *parts, uint64_t page, struct error *err)
{
    const struct snapshot_thread *thread = &parts->header.thread;
    const uint64_t place = thread->rseq + RSEQ_CS_OFFSET;
    uint64_t sequence = 0;
    int ret = 0;
    if (thread->rseq == 0)
        return 0;
    for (size_t i = 0; i < parts->vma_count; i++)
        if (parts->vmas[i].start <= place && place < parts->vmas[i].end &&
            (parts->vmas[i].flags & SNAPSHOT_VMA_FILE) != 0)
            return error_text(err, -ENOTSUP, "its restartable sequences are in a file");
    for (size_t i = 0; ret == 0 && i < parts->extent_count; i++) {
        const struct snapshot_extent *r = &parts->extents[i];
        if (r->address <= place && place < r->address + r->pages * page)
            ret = read_sequence(r->of_base != 0 ? base : file, r->offset + (place - r->address), &sequence,
                                err);
    }
    for (size_t i = 0; ret == 0 && i < parts->patch_count; i++) {
        const struct snapshot_patch *p = &parts->patches[i];
        if (p->address <= place && place < p->address + p->pages * page)
            ret = read_sequence(file, p->offset + (place - p->address), &sequence, err);
    }
    if (ret < 0)
        return ret;
    return sequence == 0 ? 0 : error_text(err, -ENOTSUP, "it is in a restartable sequence (rseq)");
}
