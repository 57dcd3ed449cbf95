/* Decide which anonymous memory a restore copies. A private mapping of the snapshot's file differs from
 * anonymous memory in some calls. mremap(2) lets it grow into the rest of the file and beyond its end. After
 * MADV_DONTNEED the old content is back (madvise(2)). So memory is mapped only if its owner is known to
 * make no such call (warm/agent/memory.h). The process lists that memory. If it lies, its own memory alone is
 * wrong.
 *
 * A fork shares large blocks of malloc(3), too, because they are the data of its tables. glibc only resizes
 * them, by mremap(2), which refuses to let a range grow that is more than one VMA. Then glibc copies the
 * block. So the first page is copied, and the rest mapped. */
#include "warm/dump/copied.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "warm/dump/tracee.h"
#include "warm/dump/vmas.h"
#include "warm/params.h"

/* Only large blocks are mapped, because two mappings cost as much as copies of some pages. Only so many are,
 * because a process has 65,530 mappings at most. */
#define BLOCK_LEAST (256UL << 10)
#define BLOCKS_MOST 1024

/* The ranges that may be mapped, in the order of their addresses. `glibc`: malloc(3) is that of glibc. */
struct ranges {
    struct warm_range *items;
    size_t count;
    bool glibc;
};

static int compare_ranges(const void *a, const void *b)
{
    const struct warm_range *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static uint64_t page_end(uint64_t address, uint64_t page)
{
    return (address + page - 1) / page * page;
}

static int read_ranges(const struct tracee *t, const struct snapshot_memory *memory, struct arena *a,
                       struct ranges *out, struct error *err)
{
    struct warm_memory list;
    struct error none = {0};
    *out = (struct ranges){0};
    if (tracee_read(t, t->parked.rdi, &list, sizeof(list), &none) < 0 || list.magic != WARM_MEMORY_MAGIC)
        return 0;
    if (list.count > WARM_RANGES_MAX)
        return error_text(err, -EINVAL, "its list of memory is too long");
    out->items = ARENA_ARRAY(a, list.count + 1 + BLOCKS_MOST, struct warm_range);
    int ret = tracee_read(t, list.ranges, out->items, list.count * sizeof(*out->items), err);
    if (ret < 0)
        return ret;
    out->count = list.count;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    out->glibc = list.heap == 1;
    if (out->glibc)
        out->items[out->count++] =
            (struct warm_range){memory->start_brk / page * page, page_end(memory->brk, page)};
    qsort(out->items, out->count, sizeof(*out->items), compare_ranges);
    return 0;
}

/* Stacks and code are copied without a mark, and what is wiped on fork has no content. */
static bool is_divided(const struct snapshot_vma *a)
{
    return (a->flags & (SNAPSHOT_VMA_FILE | SNAPSHOT_VMA_EMPTY)) == 0 && !snapshot_vma_is_copied(a);
}

/* Return the bytes of a block that begins at the address, or 0. */
static uint64_t block_at(const struct tracee *t, uint64_t address, uint64_t end, uint64_t page)
{
    uint64_t words[2];
    struct error none = {0};
    return tracee_read(t, address, words, sizeof(words), &none) < 0
               ? 0
               : warm_mapped_block(words, page, end - address);
}

/* Return where memory ends that begins with a VMA: numpy advises huge pages for a part of a block. */
static uint64_t end_of_memory(const struct dump_vmas *vmas, size_t i)
{
    while (i + 1 < vmas->vma_count && vmas->vmas[i + 1].start == vmas->vmas[i].end &&
           is_divided(&vmas->vmas[i + 1]))
        i++;
    return vmas->vmas[i].end;
}

/* Add large blocks, each without its first page. They follow each other from the beginning of a VMA, or from
 * the end of a range on. */
static void add_blocks(const struct tracee *t, const struct dump_vmas *vmas, struct ranges *ranges)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const size_t listed = ranges->count;
    uint64_t at = 0, end = 0;
    for (size_t i = 0, next = 0; i < vmas->vma_count; i++) {
        const struct snapshot_vma *a = &vmas->vmas[i];
        if (!is_divided(a))
            continue;
        if (end < a->end)
            end = end_of_memory(vmas, i);
        if (at < a->start)
            at = a->start;
        while (at < a->end && ranges->count - listed < BLOCKS_MOST) {
            while (next < listed && ranges->items[next].end <= at)
                next++;
            if (next < listed && ranges->items[next].start <= at) {
                at = ranges->items[next].end;
                continue;
            }
            const uint64_t block = block_at(t, at, end, page);
            if (block == 0)
                break;
            if (block >= BLOCK_LEAST)
                ranges->items[ranges->count++] = (struct warm_range){at + page, at + block};
            at += block;
        }
    }
    qsort(ranges->items, ranges->count, sizeof(*ranges->items), compare_ranges);
}

/* Append the part of a VMA up to `end`, and return the end. */
static uint64_t put_part(struct dump_vmas *vmas, const struct snapshot_vma *a, uint64_t start, uint64_t end,
                         uint32_t mark)
{
    if (start >= end)
        return start;
    struct snapshot_vma *part = &vmas->vmas[vmas->vma_count++];
    *part = *a;
    part->start = start;
    part->end = end;
    part->flags |= mark;
    return end;
}

int dump_copied_mark(const struct tracee *t, const struct snapshot_memory *memory, bool blocks,
                     struct arena *a, struct dump_vmas *vmas, struct error *err)
{
    struct ranges mapped;
    int ret = read_ranges(t, memory, a, &mapped, err);
    if (ret < 0)
        return ret;
    if (blocks && mapped.glibc)
        add_blocks(t, vmas, &mapped);
    const struct snapshot_vma *from = vmas->vmas, *last = from + vmas->vma_count;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    vmas->vmas = ARENA_ARRAY(a, 3 * vmas->vma_count + 2 * mapped.count, struct snapshot_vma);
    vmas->vma_count = 0;
    size_t next = 0;
    for (; from < last; from++) {
        uint64_t at = from->start;
        while (next < mapped.count && mapped.items[next].end <= from->start)
            next++;
        for (size_t i = next; is_divided(from) && i < mapped.count && mapped.items[i].start < from->end;
             i++) {
            uint64_t start = page_end(mapped.items[i].start, page), end = mapped.items[i].end / page * page;
            if (end <= at || start >= end)
                continue;
            at = put_part(vmas, from, at, start, SNAPSHOT_VMA_COPIED);
            at = put_part(vmas, from, at, end < from->end ? end : from->end, 0);
        }
        put_part(vmas, from, at, from->end, is_divided(from) ? SNAPSHOT_VMA_COPIED : 0);
    }
    return 0;
}

/* Return the number of extents from `first` on that are in the VMA: extents have the order of the VMAs. */
static size_t extents_of(const struct dump_vmas *vmas, const struct snapshot_vma *a, size_t first)
{
    size_t end = first;
    while (end < vmas->extent_count && vmas->extents[end].address < a->end)
        end++;
    return end - first;
}

void dump_copied_unmark(struct dump_vmas *vmas)
{
    size_t next = 0;
    for (size_t i = 0; i < vmas->vma_count; i++) {
        size_t count = extents_of(vmas, &vmas->vmas[i], next);
        if (count == 0)
            vmas->vmas[i].flags &= ~(uint32_t)SNAPSHOT_VMA_COPIED;
        next += count;
    }
}

void dump_copied_divide(struct arena *a, struct dump_vmas *vmas, unsigned long page)
{
    const uint64_t most = SNAPSHOT_COPY_MAX / page;
    size_t room = vmas->extent_count, count = 0, next = 0;
    for (size_t i = 0; i < vmas->extent_count; i++)
        room += vmas->extents[i].pages / most;
    struct snapshot_extent *extents = ARENA_ARRAY(a, room + 1, struct snapshot_extent);
    for (size_t i = 0; i < vmas->vma_count; i++) {
        const bool copied = snapshot_vma_is_copied(&vmas->vmas[i]);
        for (size_t end = next + extents_of(vmas, &vmas->vmas[i], next); next < end; next++) {
            struct snapshot_extent rest = vmas->extents[next];
            for (; copied && rest.pages > most; rest.pages -= most, rest.address += most * page)
                extents[count++] = (struct snapshot_extent){.address = rest.address, .pages = most};
            extents[count++] = rest;
        }
    }
    vmas->extents = extents;
    vmas->extent_count = count;
}
