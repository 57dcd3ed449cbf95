/* The steps of a restore that exchange the memory. The address space on the way, lowest address first; M is
 * the middle of the largest gap of the snapshot:
 *
 *     before                     exchange              after
 *     the runtime's program      nothing               the interpreter, its heap
 *     M code, data, strings      the same              the same, until the agent unmaps code and data
 *       parking, reserved        [vvar] [vdso]         nothing
 *     libraries, stack           nothing               the interpreter's mappings, its stack
 *     [vvar] [vdso]              nothing               [vvar] [vdso], where the snapshot had them
 *
 * Where the snapshot has nothing that the runtime has, which is usual, for both lie anywhere, it is mapped
 * before the exchange, beside the runtime, which can still give it back; the exchange then unmaps the gaps.
 */
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "warm/restore.h"
#include "warm/restore_plan.h"

/* Newer than the headers of the oldest supported distribution. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef PIDFD_SELF_THREAD
#define PIDFD_SELF_THREAD (-10000)
#endif
#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08
#endif

static const struct {
    uint32_t area_flag;
    int advice;
    uint32_t step_flags;
} advices[] = {
    {IMAGE_AREA_WIPEONFORK, MADV_WIPEONFORK, 0},
    {IMAGE_AREA_DONTFORK, MADV_DONTFORK, 0},
    {IMAGE_AREA_DONTDUMP, MADV_DONTDUMP, 0},
    {IMAGE_AREA_HUGEPAGE, MADV_HUGEPAGE, RESTORER_HINT},
    {IMAGE_AREA_NOHUGEPAGE, MADV_NOHUGEPAGE, RESTORER_HINT},
    {IMAGE_AREA_MERGEABLE, MADV_MERGEABLE, RESTORER_HINT},
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

/* Where an area begins: a stack has room to grow. */
static uint64_t area_start(const struct restore_plan *plan, const struct image_area *a)
{
    return (a->flags & IMAGE_AREA_STACK) != 0 ? plan->stack : a->start;
}

/* All that is neither the place nor, if it is mapped already, the snapshot's. */
static void unmap_others(struct restore_plan *plan)
{
    const struct image *image = plan->image;
    const struct restore_place *place = plan->place;
    const uint64_t place_end = place->parking + place->parking_size;
    uint64_t from = 0;
    for (size_t i = 0, count = plan->beside ? image->area_count : 0; i <= count; i++) {
        uint64_t to = i < count ? area_start(plan, &image->areas[i]) : IMAGE_HIGHEST;
        if (from <= place->code && place_end <= to) {
            unmap(plan, from, place->code);
            from = place_end;
        }
        unmap(plan, from, to);
        from = i < count ? image->areas[i].end : to;
    }
}

/* The kernel lays its areas out in one block, the same way in every process: where the code is, the others
 * are. They are moved twice, for where they belong something of the runtime may lie, and where they are
 * something of the snapshot. */
static void exchange_special(struct restore_plan *plan)
{
    const struct image_header *h = plan->image->header;
    const struct restore_place *place = plan->place;
    uint64_t vdso = 0;
    for (size_t i = 0; i < h->special_count; i++)
        if (strcmp(h->special[i].name, "[vdso]") == 0)
            vdso = h->special[i].start;
    uint64_t parked = place->parking;
    for (size_t i = 0; i < h->special_count; i++) {
        const struct image_special *s = &h->special[i];
        move(plan, plan->own_vdso + (s->start - vdso), parked, s->end - s->start);
        parked += s->end - s->start;
    }
    unmap_others(plan);
    parked = place->parking;
    for (size_t i = 0; i < h->special_count; i++) {
        const struct image_special *s = &h->special[i];
        move(plan, parked, s->start, s->end - s->start);
        parked += s->end - s->start;
    }
}

/* The area as it would be untouched. */
static void map_area(struct restore_plan *plan, const struct image_area *a)
{
    uint64_t flags = MAP_FIXED_NOREPLACE | ((a->flags & IMAGE_AREA_NORESERVE) != 0 ? MAP_NORESERVE : 0);
    if ((a->flags & IMAGE_AREA_FILE) != 0) {
        int fd = a->file == IMAGE_FILE_AGENT ? plan->request->agent : plan->files[a->file];
        flags |= (a->flags & IMAGE_AREA_SHARED) != 0 ? MAP_SHARED : MAP_PRIVATE;
        restore_step(&plan->map, REPORT_MAP_FILE, 0, SYS_mmap, a->start, a->end - a->start, a->prot, flags,
                     (uint64_t)fd, a->offset);
        return;
    }
    const uint64_t start = area_start(plan, a);
    flags |= MAP_ANONYMOUS | ((a->flags & IMAGE_AREA_DROPPABLE) != 0 ? MAP_DROPPABLE : MAP_PRIVATE);
    if ((a->flags & IMAGE_AREA_STACK) != 0)
        flags |= MAP_GROWSDOWN | MAP_NORESERVE;
    restore_step(&plan->map, REPORT_MAP_MEMORY, 0, SYS_mmap, start, a->end - start, a->prot, flags,
                 (uint64_t)-1);
}

static int run_flags(const struct image_area *a, bool over)
{
    return MAP_PRIVATE | (over ? MAP_FIXED : MAP_FIXED_NOREPLACE) |
           ((a->flags & IMAGE_AREA_NORESERVE) != 0 ? MAP_NORESERVE : 0);
}

/* The pages of the snapshot; `over` their area, if that is mapped. A stack has to stay anonymous, for a
 * mapping of a file does not grow. */
static void map_run(struct restore_plan *plan, const struct image_area *a, const struct image_run *r,
                    bool over)
{
    uint64_t size = r->pages * plan->image->header->page_size, fd = (uint64_t)plan->request->file;
    if ((a->flags & IMAGE_AREA_STACK) != 0)
        restore_step(&plan->map, REPORT_STACK, 0, SYS_pread64, fd, r->address, size, r->offset);
    else
        restore_step(&plan->map, REPORT_MAP_SNAPSHOT, 0, SYS_mmap, r->address, size, a->prot,
                     (uint64_t)run_flags(a, over), fd, r->offset);
}

static void advise(struct restore_plan *plan, const struct image_area *a)
{
    /* Droppable memory has the properties already, and may not be given others. */
    if ((a->flags & IMAGE_AREA_DROPPABLE) != 0)
        return;
    for (size_t i = 0; i < sizeof(advices) / sizeof(*advices); i++)
        if ((a->flags & advices[i].area_flag) != 0)
            restore_step(&plan->map, REPORT_ADVICE, advices[i].step_flags, SYS_madvise, a->start,
                         a->end - a->start, (uint64_t)advices[i].advice);
}

/* What is written to on the way to the program in any case: one call for many pages costs less than a fault
 * for each. For the process itself process_madvise(2) knows every advice since Linux 6.13, and PIDFD_SELF
 * since 6.15; before, the pages are copied one by one. */
static void prefetch(struct restore_plan *plan)
{
    const struct image *image = plan->image;
    struct iovec *list = restore_plan_alloc(plan, image->write_count * sizeof(*list));
    for (size_t i = 0; i < image->write_count; i++)
        list[i] = (struct iovec){(void *)image->writes[i].address,
                                 image->writes[i].pages * image->header->page_size};
    for (size_t i = 0; i < image->write_count; i += IOV_MAX) {
        size_t count = image->write_count - i < IOV_MAX ? image->write_count - i : IOV_MAX;
        restore_step(&plan->map, REPORT_ADVICE, RESTORER_HINT, SYS_process_madvise,
                     (uint64_t)PIDFD_SELF_THREAD, (uint64_t)&list[i], count, MADV_POPULATE_WRITE);
    }
}

/* The run that is all of the area, or NULL; *next, the first run that lies in no area before, moves on. */
static const struct image_run *whole_run(const struct image *image, const struct image_area *a,
                                         const struct image_run **next)
{
    const struct image_run *first = *next, *end = image->runs + image->run_count;
    while (*next < end && (*next)->address < a->end)
        ++*next;
    bool whole = *next == first + 1 && (a->flags & IMAGE_AREA_STACK) == 0 &&
                 image_run_covers(first, a, image->header->page_size);
    return whole ? first : NULL;
}

void restore_plan_map(struct restore_plan *plan)
{
    const struct image *image = plan->image;
    const struct image_run *run = image->runs;
    for (size_t i = 0; i < image->area_count; i++) {
        const struct image_area *a = &image->areas[i];
        const struct image_run *next = run;
        bool whole = whole_run(image, a, &next) != NULL;
        if (!whole)
            map_area(plan, a);
        for (; run < next; run++)
            map_run(plan, a, run, !whole);
        advise(plan, a);
    }
    if (plan->request->prefetch)
        prefetch(plan);
}

/* Does the step take memory where there was nothing? */
static bool takes_memory(const struct restorer_step *step)
{
    return step->number == SYS_mmap && (step->arguments[3] & MAP_FIXED_NOREPLACE) != 0;
}

/* Was the step carried out when the first `done` of the list were? */
static bool is_done(const struct restore_plan *plan, size_t i, size_t done)
{
    return i < done || (plan->begun && plan->map.steps[i].report == REPORT_MAP_SNAPSHOT &&
                        takes_memory(&plan->map.steps[i]));
}

static void take_back(struct restore_plan *plan, size_t done)
{
    for (size_t i = 0; i < plan->map.count; i++)
        if (is_done(plan, i, done) && takes_memory(&plan->map.steps[i]))
            munmap((void *)plan->map.steps[i].arguments[0], plan->map.steps[i].arguments[1]);
    plan->beside = plan->begun = false;
}

bool restore_plan_map_beside(struct restore_plan *plan)
{
    for (size_t i = 0; i < plan->map.count; i++) {
        const struct restorer_step *step = &plan->map.steps[i];
        const uint64_t *a = step->arguments;
        if (is_done(plan, i, 0) || syscall(step->number, a[0], a[1], a[2], a[3], a[4], a[5]) >= 0 ||
            (step->flags & RESTORER_HINT) != 0)
            continue;
        take_back(plan, i);
        return false;
    }
    return plan->beside = true;
}

void restore_plan_unmap(struct restore_plan *plan)
{
    take_back(plan, plan->beside ? plan->map.count : 0);
}

static void unmap_whole(const struct image *image, size_t count)
{
    const struct image_run *next = image->runs;
    for (size_t i = 0; i < count; i++)
        if (whole_run(image, &image->areas[i], &next) != NULL)
            munmap((void *)image->areas[i].start, image->areas[i].end - image->areas[i].start);
}

bool restore_begin(const struct image *image, int file)
{
    const struct image_run *next = image->runs;
    if (image->header->descriptor_count > 0)
        return false;
    for (size_t i = 0; i < image->area_count; i++) {
        const struct image_area *a = &image->areas[i];
        const struct image_run *run = whole_run(image, a, &next);
        if (run == NULL || mmap((void *)a->start, a->end - a->start, (int)a->prot, run_flags(a, false), file,
                                (off_t)run->offset) != MAP_FAILED)
            continue;
        unmap_whole(image, i);
        return false;
    }
    return true;
}

void restore_cancel(const struct image *image)
{
    unmap_whole(image, image->area_count);
}

void restore_plan_memory(struct restore_plan *plan)
{
    exchange_special(plan);
    if (plan->beside)
        return;
    memcpy(&plan->rest.steps[plan->rest.count], plan->map.steps, plan->map.count * sizeof(*plan->map.steps));
    plan->rest.count += plan->map.count;
}
