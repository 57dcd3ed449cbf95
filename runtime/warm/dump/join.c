/* Join neighbouring VMAs (warm/dump/join.h). */
#include "warm/dump/join.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "warm/dump/vmas.h"

#define CODE (PROT_READ | PROT_EXEC)

static bool is_file(const struct snapshot_vma *a)
{
    return (a->flags & SNAPSHOT_VMA_FILE) != 0;
}

static uint64_t extent_end(const struct snapshot_extent *r, uint64_t page)
{
    return r->address + r->pages * page;
}

/* Return the number of extents from `first` on that are in the VMA: extents have the order of the VMAs. */
static size_t count_extents(const struct dump_vmas *vmas, size_t first, const struct snapshot_vma *a)
{
    size_t n = 0;
    while (first + n < vmas->extent_count && vmas->extents[first + n].address < a->end)
        n++;
    return n;
}

static bool goes_on(const struct snapshot_vma *a, const struct snapshot_vma *b)
{
    return a->offset + (a->end - a->start) == b->offset && a->file == b->file;
}

static bool may_be_code(const struct snapshot_vma *a, const struct snapshot_vma *b)
{
    return (a->prot == CODE || b->prot == CODE) && (a->prot | b->prot) == CODE;
}

/* Return whether two VMAs join; `content`: one of them has extents. Code of a file has none. VMAs with equal
 * permissions may be separate only in the kernel's bookkeeping. */
static bool joins(const struct snapshot_vma *a, const struct snapshot_vma *b, bool content)
{
    if (a->end != b->start || a->flags != b->flags || (a->flags & SNAPSHOT_VMA_STACK) != 0)
        return false;
    if (!is_file(a))
        return a->prot == b->prot;
    return !content && goes_on(a, b) && (a->prot == b->prot || may_be_code(a, b));
}

/* Append extents to those that are kept already; the first may continue where the last has ended. */
static void keep_extents(struct dump_vmas *vmas, size_t *kept, size_t first, size_t count, bool joined,
                         uint64_t page)
{
    for (size_t i = first; i < first + count; i++) {
        struct snapshot_extent *last = *kept > 0 ? &vmas->extents[*kept - 1] : NULL;
        if (joined && last != NULL && extent_end(last, page) == vmas->extents[i].address)
            last->pages += vmas->extents[i].pages;
        else
            vmas->extents[(*kept)++] = vmas->extents[i];
    }
}

/* Limits for pages that are stored too rather than mapped around, because another mapping costs as much as
 * copying two pages. Untouched pages of a file are better left to the page cache, which others share. In a
 * copied VMA each page has a cost. A VMA that ends where the heap does keeps anonymous memory at its end, or
 * the kernel would not name it "[heap]". */
struct filling {
    uint64_t between, edge; /* extents; the first or last of them and the end of the VMA */
};

static struct filling filling_of(const struct snapshot_vma *a, uint64_t heap_end)
{
    bool zeros = !is_file(a) && !snapshot_vma_is_copied(a) && a->end != heap_end;
    return zeros ? (struct filling){16, 16} : (struct filling){4, 0};
}

/* Make extents of one VMA longer, or join several; return how many are left. */
static size_t fill_vma(const struct snapshot_vma *a, struct snapshot_extent *extents, size_t count,
                       uint64_t page, struct filling few)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct snapshot_extent *last = kept > 0 ? &extents[kept - 1] : NULL;
        if (last != NULL && extents[i].address - extent_end(last, page) <= few.between * page)
            last->pages = (extent_end(&extents[i], page) - last->address) / page;
        else
            extents[kept++] = extents[i];
    }
    if (kept > 0 && extents[0].address - a->start <= few.edge * page) {
        extents[0].pages += (extents[0].address - a->start) / page;
        extents[0].address = a->start;
    }
    if (kept > 0 && a->end - extent_end(&extents[kept - 1], page) <= few.edge * page)
        extents[kept - 1].pages = (a->end - extents[kept - 1].address) / page;
    return kept;
}

static void fill_gaps(struct dump_vmas *vmas, uint64_t page, uint64_t heap_end)
{
    size_t kept = 0, first = 0;
    for (size_t i = 0; vmas->extent_count > 0 && i < vmas->vma_count; i++) {
        const struct snapshot_vma *a = &vmas->vmas[i];
        size_t count = count_extents(vmas, first, a);
        size_t left = fill_vma(a, &vmas->extents[first], count, page, filling_of(a, heap_end));
        memmove(&vmas->extents[kept], &vmas->extents[first], left * sizeof(*vmas->extents));
        kept += left;
        first += count;
    }
    vmas->extent_count = kept;
}

void dump_vmas_join(struct dump_vmas *vmas, uint64_t page, uint64_t heap_end)
{
    size_t kept_vmas = 0, kept_extents = 0, first = 0;
    bool last_has_extents = false;
    fill_gaps(vmas, page, heap_end);
    for (size_t i = 0; i < vmas->vma_count; i++) {
        struct snapshot_vma a = vmas->vmas[i];
        size_t count = count_extents(vmas, first, &a);
        if (is_file(&a) && !snapshot_vma_is_copied(&a) && count == 1 &&
            snapshot_extent_covers(&vmas->extents[first], &a, page)) {
            a.flags &= ~(uint32_t)SNAPSHOT_VMA_FILE;
            a.file = 0;
            a.offset = 0;
        }
        struct snapshot_vma *last = kept_vmas > 0 ? &vmas->vmas[kept_vmas - 1] : NULL;
        bool joined = last != NULL && joins(last, &a, count > 0 || last_has_extents);
        if (joined) {
            last->end = a.end;
            last->prot |= a.prot;
        } else {
            vmas->vmas[kept_vmas++] = a;
        }
        last_has_extents = count > 0 || (joined && last_has_extents);
        keep_extents(vmas, &kept_extents, first, count, joined, page);
        first += count;
    }
    vmas->vma_count = kept_vmas;
    vmas->extent_count = kept_extents;
}
