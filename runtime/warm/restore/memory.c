/* The steps of a restore that exchange the memory. This is the address space during the exchange, lowest
 * address first; M is the middle of the largest gap of the snapshot:
 *
 *     before                     exchange              after
 *     the runtime's program      nothing               the interpreter, its heap
 *     M code, data, strings      the same              the same, until the agent unmaps code and data
 *       parking, reserved        [vvar] [vdso]         nothing
 *     libraries, stack           nothing               the interpreter's mappings, its stack
 *     [vvar] [vdso]              nothing               [vvar] [vdso], where the snapshot had them
 *
 * Usually the snapshot has nothing at the addresses of the runtime, because both are placed at random. Then
 * it is mapped before the exchange, next to the runtime, which can still undo that. The exchange then unmaps
 * the gaps. */
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/sys.h"
#include "warm/restore/plan.h"
#include "warm/restore/request.h"

/* Newer than the headers of the oldest supported distribution. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#ifndef PIDFD_SELF_THREAD
#define PIDFD_SELF_THREAD (-10000)
#endif
#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08
#endif

static const struct {
    uint32_t vma_flag;
    int advice;
    uint32_t step_flags;
} advices[] = {
    {SNAPSHOT_VMA_WIPEONFORK, MADV_WIPEONFORK, 0},
    {SNAPSHOT_VMA_DONTFORK, MADV_DONTFORK, 0},
    {SNAPSHOT_VMA_DONTDUMP, MADV_DONTDUMP, 0},
    {SNAPSHOT_VMA_HUGEPAGE, MADV_HUGEPAGE, RESTORER_HINT},
    {SNAPSHOT_VMA_NOHUGEPAGE, MADV_NOHUGEPAGE, RESTORER_HINT},
    {SNAPSHOT_VMA_MERGEABLE, MADV_MERGEABLE, RESTORER_HINT},
    {SNAPSHOT_VMA_GUARD, MADV_GUARD_INSTALL, 0},
};

static void move(struct restore_plan *plan, uint64_t from, uint64_t to, uint64_t size)
{
    restore_step(&plan->rest, REPORT_VDSO, 0, SYS_mremap, from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
                 to);
}

static void unmap(struct restore_plan *plan, uint64_t from, uint64_t to)
{
    if (from < to)
        restore_step(&plan->rest, REPORT_UNMAP, 0, SYS_munmap, from, to - from);
}

/* Return the start of a VMA: a stack has room to grow. */
static uint64_t vma_start(const struct restore_plan *plan, const struct snapshot_vma *a)
{
    return (a->flags & SNAPSHOT_VMA_STACK) != 0 ? plan->stack : a->start;
}

static bool all_mapped(const struct restore_plan *plan)
{
    return plan->mapped == RESTORE_MAPPED_ALL;
}

/* Unmap everything except the place and, if it is mapped already, the snapshot. */
static void unmap_others(struct restore_plan *plan)
{
    const struct snapshot *snapshot = plan->snapshot;
    const struct restore_place *place = plan->place;
    const uint64_t place_end = place->parking + place->parking_size;
    uint64_t from = 0;
    for (size_t i = 0, count = all_mapped(plan) ? snapshot->vma_count : 0; i <= count; i++) {
        uint64_t to = i < count ? vma_start(plan, &snapshot->vmas[i]) : SNAPSHOT_HIGHEST;
        if (from <= place->code && place_end <= to) {
            unmap(plan, from, place->code);
            from = place_end;
        }
        unmap(plan, from, to);
        from = i < count ? snapshot->vmas[i].end : to;
    }
}

/* The kernel maps the vdso and vvar areas as one block, in the same way in every process: the address of the
 * code gives the others. They are moved twice. Their final addresses may be in use by the runtime, and their
 * current ones by the snapshot. */
static void exchange_vdso(struct restore_plan *plan)
{
    const struct snapshot_header *h = plan->snapshot->header;
    const struct restore_place *place = plan->place;
    uint64_t vdso = 0;
    for (size_t i = 0; i < h->vdso_count; i++)
        if (strcmp(h->vdso[i].name, "[vdso]") == 0)
            vdso = h->vdso[i].start;
    uint64_t parked = place->parking;
    for (size_t i = 0; i < h->vdso_count; i++) {
        const struct snapshot_vdso *s = &h->vdso[i];
        move(plan, plan->own_vdso + (s->start - vdso), parked, s->end - s->start);
        parked += s->end - s->start;
    }
    unmap_others(plan);
    parked = place->parking;
    for (size_t i = 0; i < h->vdso_count; i++) {
        const struct snapshot_vdso *s = &h->vdso[i];
        move(plan, parked, s->start, s->end - s->start);
        parked += s->end - s->start;
    }
}

/* Map the VMA in its untouched state. */
static void map_vma(struct restore_plan *plan, const struct snapshot_vma *a)
{
    uint64_t flags = MAP_FIXED_NOREPLACE | ((a->flags & SNAPSHOT_VMA_NORESERVE) != 0 ? MAP_NORESERVE : 0);
    if ((a->flags & SNAPSHOT_VMA_FILE) != 0) {
        int fd = a->file == SNAPSHOT_FILE_AGENT ? plan->request->agent : plan->files[a->file];
        flags |= (a->flags & SNAPSHOT_VMA_SHARED) != 0 ? MAP_SHARED : MAP_PRIVATE;
        restore_step(&plan->map, REPORT_MAP_FILE, 0, SYS_mmap, a->start, a->end - a->start, a->prot, flags,
                     (uint64_t)fd, a->offset);
        return;
    }
    const uint64_t start = vma_start(plan, a);
    flags |= MAP_ANONYMOUS | ((a->flags & SNAPSHOT_VMA_DROPPABLE) != 0 ? MAP_DROPPABLE : MAP_PRIVATE);
    if ((a->flags & SNAPSHOT_VMA_STACK) != 0)
        flags |= MAP_GROWSDOWN | MAP_NORESERVE;
    const uint32_t prot = a->prot | (snapshot_vma_is_copied(a) ? PROT_WRITE : 0);
    restore_step(&plan->map, REPORT_MAP_MEMORY, 0, SYS_mmap, start, a->end - start, prot, flags,
                 (uint64_t)-1);
}

/* Set the protection of a VMA that was writable until it had its content. */
static void protect(struct restore_plan *plan, const struct snapshot_vma *a)
{
    if (snapshot_vma_is_copied(a) && (a->prot & PROT_WRITE) == 0)
        restore_step(&plan->map, REPORT_PROTECT, 0, SYS_mprotect, a->start, a->end - a->start, a->prot);
}

/* Fill in a step's arguments for pages of the snapshot; `over`: their VMA, if that is mapped. */
static void run_arguments(const struct restore_plan *plan, const struct snapshot_vma *a,
                          const struct snapshot_extent *r, bool over, uint64_t arguments[6])
{
    const int flags = MAP_PRIVATE | (over ? MAP_FIXED : MAP_FIXED_NOREPLACE) |
                      ((a->flags & SNAPSHOT_VMA_NORESERVE) != 0 ? MAP_NORESERVE : 0);
    const uint64_t size = r->pages * plan->snapshot->header->page_size;
    memcpy(arguments,
           (uint64_t[]){r->address, size, a->prot, (uint64_t)flags,
                        (uint64_t)(r->of_base != 0 ? plan->request->base : plan->request->file), r->offset},
           6 * sizeof(*arguments));
}

static void map_extent(struct restore_plan *plan, const struct snapshot_vma *a,
                       const struct snapshot_extent *r, bool over)
{
    uint64_t m[6];
    run_arguments(plan, a, r, over, m);
    if (snapshot_vma_is_copied(a))
        restore_step(&plan->map, REPORT_COPY, RESTORER_WHOLE, SYS_pread64, m[4], m[0], m[1], m[5]);
    else
        restore_list_add(&plan->map, REPORT_MAP_SNAPSHOT, 0, SYS_mmap, m);
}

static void advise(struct restore_plan *plan, const struct snapshot_vma *a)
{
    /* Droppable memory already has these properties, and refuses to be given others. */
    if ((a->flags & SNAPSHOT_VMA_DROPPABLE) != 0)
        return;
    for (size_t i = 0; i < sizeof(advices) / sizeof(*advices); i++)
        if ((a->flags & advices[i].vma_flag) != 0)
            restore_step(&plan->map, REPORT_ADVICE, advices[i].step_flags, SYS_madvise, a->start,
                         a->end - a->start, (uint64_t)advices[i].advice);
}

/* Return the extent that is the whole VMA, or NULL. *next, the first extent beyond all earlier VMAs, moves
 * on. */
static const struct snapshot_extent *whole_extent(const struct snapshot *snapshot,
                                                  const struct snapshot_vma *a,
                                                  const struct snapshot_extent **next)
{
    const struct snapshot_extent *first = *next, *end = snapshot->extents + snapshot->extent_count;
    while (*next < end && (*next)->address < a->end)
        ++*next;
    bool whole = *next == first + 1 && !snapshot_vma_is_copied(a) &&
                 snapshot_extent_covers(first, a, snapshot->header->page_size);
    return whole ? first : NULL;
}

/* Return whether the VMA needs only the snapshot file. That is true for anonymous memory, and for VMAs whose
 * pages are all in the file. If this process may not copy pages early (restore_begin), those that are copied
 * come later. */
static bool is_early(const struct snapshot_vma *a, bool whole, bool copy)
{
    const uint32_t others = ~(uint32_t)(SNAPSHOT_VMA_NORESERVE | SNAPSHOT_VMA_COPIED);
    return whole || ((a->flags & others) == 0 && (copy || !snapshot_vma_is_copied(a)));
}

/* Make pages private that are written to in any case before the program: one call for many pages costs less
 * than a fault for each. For the calling process, process_madvise(2) supports every advice since Linux 6.13,
 * and PIDFD_SELF since 6.15. Before, the pages are copied one by one. */
static void prefetch(struct restore_plan *plan, const struct iovec *list, size_t count)
{
    for (size_t i = 0; i < count; i += IOV_MAX)
        restore_step(&plan->map, REPORT_ADVICE, RESTORER_HINT, SYS_process_madvise,
                     (uint64_t)PIDFD_SELF_THREAD, (uint64_t)&list[i],
                     count - i < IOV_MAX ? count - i : IOV_MAX, MADV_POPULATE_WRITE);
}

/* Add the steps for early VMAs or the others. Put their part of the write set into *room; return the number
 * of pieces. `copy`: early VMAs may be copied. */
static size_t map_vmas(struct restore_plan *plan, bool early, bool copy, struct iovec *room)
{
    const struct snapshot *snapshot = plan->snapshot;
    const struct snapshot_extent *extent = snapshot->extents;
    const struct snapshot_write *w = snapshot->writes, *last = w + snapshot->write_count;
    size_t count = 0;
    for (size_t i = 0; i < snapshot->vma_count; i++) {
        const struct snapshot_vma *a = &snapshot->vmas[i];
        const struct snapshot_extent *first = extent;
        bool whole = whole_extent(snapshot, a, &extent) != NULL, wanted = is_early(a, whole, copy) == early;
        for (; w < last && w->address < a->end; w++)
            if (wanted && !snapshot_vma_is_copied(a) && (w->for_dumps == 0 || plan->request->core_dumps))
                room[count++] = (struct iovec){(void *)w->address, w->pages * snapshot->header->page_size};
        if (!wanted)
            continue;
        if (!whole)
            map_vma(plan, a);
        if (snapshot_vma_is_copied(a)) /* the pages that get its content are huge, if that is advised */
            advise(plan, a);
        for (; first < extent; first++)
            map_extent(plan, a, first, !whole);
        protect(plan, a);
        if (!snapshot_vma_is_copied(a)) /* a mapping of the file has replaced it, without its properties */
            advise(plan, a);
    }
    return count;
}

/* Copy the pages of the file that replace those of extents: many by one call, if they follow each other in
 * the file. */
static void copy_patches(struct restore_plan *plan)
{
    const struct snapshot *snapshot = plan->snapshot;
    const uint64_t page = snapshot->header->page_size;
    struct iovec *list = restore_plan_alloc(plan, snapshot->patch_count * sizeof(*list));
    for (size_t i = 0, count; i < snapshot->patch_count; i += count) {
        const struct snapshot_patch *p = &snapshot->patches[i];
        uint64_t size = 0;
        for (count = 0;
             i + count < snapshot->patch_count && count < IOV_MAX && p[count].offset == p->offset + size;
             count++) {
            list[i + count] = (struct iovec){(void *)p[count].address, p[count].pages * page};
            size += list[i + count].iov_len;
        }
        restore_step(&plan->map, REPORT_COPY, RESTORER_SUM, SYS_preadv, (uint64_t)plan->request->file,
                     (uint64_t)&list[i], count, p->offset, 0, size);
    }
}

void restore_plan_map(struct restore_plan *plan)
{
    const bool copied = plan->mapped == RESTORE_MAPPED_COPIED;
    struct iovec *room = restore_plan_alloc(plan, plan->snapshot->write_count * sizeof(*room));
    size_t early = map_vmas(plan, true, copied, room);
    if (copied)
        prefetch(plan, room, early);
    plan->early = plan->map.count;
    size_t late = map_vmas(plan, false, copied, room + early);
    if (plan->request->prefetch)
        prefetch(plan, copied ? room + early : room, copied ? late : early + late);
    copy_patches(plan);
}

/* Return whether the step takes memory where there was none. */
static bool takes_memory(const struct restorer_step *step)
{
    return step->number == SYS_mmap && (step->arguments[3] & MAP_FIXED_NOREPLACE) != 0;
}

static void unmap_steps(const struct restore_plan *plan, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (takes_memory(&plan->map.steps[i]))
            munmap((void *)plan->map.steps[i].arguments[0], plan->map.steps[i].arguments[1]);
}

/* Carry out the steps from one to the end immediately. After a failure, undo all steps. */
static bool carry_out(const struct restore_plan *plan, size_t from)
{
    for (size_t i = from; i < plan->map.count; i++) {
        const struct restorer_step *step = &plan->map.steps[i];
        const uint64_t *a = step->arguments;
        long result = syscall(step->number, a[0], a[1], a[2], a[3], a[4], a[5]);
        bool done = (step->flags & RESTORER_SUM) != 0     ? (uint64_t)result == a[5]
                    : (step->flags & RESTORER_WHOLE) != 0 ? (uint64_t)result == a[2]
                                                          : result >= 0;
        if (done || (step->flags & RESTORER_HINT) != 0)
            continue;
        unmap_steps(plan, i);
        return false;
    }
    return true;
}

bool restore_plan_map_early(struct restore_plan *plan, bool copy)
{
    const struct snapshot *snapshot = plan->snapshot;
    struct iovec *room = calloc(snapshot->write_count + 1, sizeof(*room));
    plan->map.steps = calloc(restore_plan_map_steps(snapshot), sizeof(*plan->map.steps));
    if (room != NULL && plan->map.steps != NULL) {
        size_t count = map_vmas(plan, true, copy, room);
        if (copy)
            prefetch(plan, room, count);
        if (carry_out(plan, 0))
            plan->mapped = copy ? RESTORE_MAPPED_COPIED : RESTORE_MAPPED_EARLY;
    }
    free(room);
    free(plan->map.steps);
    plan->map = (struct restore_list){0};
    return plan->mapped != RESTORE_MAPPED_NOTHING;
}

bool restore_plan_map_overlapped(struct restore_plan *plan)
{
    bool done = carry_out(plan, plan->mapped == RESTORE_MAPPED_NOTHING ? 0 : plan->early);
    plan->mapped = done ? RESTORE_MAPPED_ALL : RESTORE_MAPPED_NOTHING;
    return done;
}

void restore_plan_unmap(struct restore_plan *plan)
{
    const struct snapshot *snapshot = plan->snapshot;
    const struct snapshot_extent *extent = snapshot->extents;
    const bool copied = plan->mapped == RESTORE_MAPPED_COPIED;
    for (size_t i = 0; i < snapshot->vma_count && plan->mapped != RESTORE_MAPPED_NOTHING; i++) {
        const struct snapshot_vma *a = &snapshot->vmas[i];
        bool whole = whole_extent(snapshot, a, &extent) != NULL;
        if (all_mapped(plan) || is_early(a, whole, copied))
            munmap((void *)vma_start(plan, a), a->end - vma_start(plan, a));
    }
    plan->mapped = RESTORE_MAPPED_NOTHING;
}

void restore_plan_memory(struct restore_plan *plan)
{
    exchange_vdso(plan);
    if (all_mapped(plan))
        return;
    memcpy(&plan->rest.steps[plan->rest.count], plan->map.steps, plan->map.count * sizeof(*plan->map.steps));
    plan->rest.count += plan->map.count;
}
