/* Neighbouring areas as one (warm/dump_join.h). */
#include "warm/dump_join.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#include "warm/dump_areas.h"

#define CODE (PROT_READ | PROT_EXEC)

/* Pages of zeros that are stored to save a mapping, which costs as much as to copy two. */
#define FEW 16

static bool is_file(const struct image_area *a)
{
    return (a->flags & IMAGE_AREA_FILE) != 0;
}

static uint64_t run_end(const struct image_run *r, uint64_t page)
{
    return r->address + r->pages * page;
}

/* The number of runs from `first` on that are in the area: runs have the order of the areas. */
static size_t count_runs(const struct dump_areas *areas, size_t first, const struct image_area *a)
{
    size_t n = 0;
    while (first + n < areas->run_count && areas->runs[first + n].address < a->end)
        n++;
    return n;
}

static bool goes_on(const struct image_area *a, const struct image_area *b)
{
    return a->offset + (a->end - a->start) == b->offset && a->file == b->file;
}

static bool may_be_code(const struct image_area *a, const struct image_area *b)
{
    return (a->prot == CODE || b->prot == CODE) && (a->prot | b->prot) == CODE;
}

/* `content`: one of them has runs. Pages of a snapshot are never executable. Areas that permit the same may
 * be apart by the kernel's bookkeeping only. */
static bool joins(const struct image_area *a, const struct image_area *b, bool content)
{
    if (a->end != b->start || a->flags != b->flags || (a->flags & IMAGE_AREA_STACK) != 0)
        return false;
    if (!is_file(a))
        return a->prot == b->prot;
    return !content && goes_on(a, b) && (a->prot == b->prot || may_be_code(a, b));
}

/* Append runs to those that are kept already; the first may go on where the last has ended. */
static void keep_runs(struct dump_areas *areas, size_t *kept, size_t first, size_t count, bool joined,
                      uint64_t page)
{
    for (size_t i = first; i < first + count; i++) {
        struct image_run *last = *kept > 0 ? &areas->runs[*kept - 1] : NULL;
        if (joined && last != NULL && run_end(last, page) == areas->runs[i].address)
            last->pages += areas->runs[i].pages;
        else
            areas->runs[(*kept)++] = areas->runs[i];
    }
}

/* What lies between runs of anonymous memory, before the first and behind the last are zeros. */
static void fill_gaps(struct dump_areas *areas, uint64_t page, uint64_t heap_end)
{
    const uint64_t few = FEW * page;
    size_t kept = 0, first = 0;
    for (size_t i = 0; i < areas->area_count; i++) {
        const struct image_area *a = &areas->areas[i];
        size_t count = count_runs(areas, first, a), before = kept;
        bool fills = !is_file(a) && (a->flags & IMAGE_AREA_STACK) == 0 && a->end != heap_end;
        for (size_t k = first; k < first + count; k++) {
            struct image_run r = areas->runs[k];
            const uint64_t from = kept > before ? run_end(&areas->runs[kept - 1], page) : a->start;
            if (!fills || r.address - from > few)
                areas->runs[kept++] = r;
            else if (kept > before)
                areas->runs[kept - 1].pages += (run_end(&r, page) - from) / page;
            else
                areas->runs[kept++] =
                    (struct image_run){.address = from, .pages = (run_end(&r, page) - from) / page};
        }
        if (fills && kept > before && a->end - run_end(&areas->runs[kept - 1], page) <= few)
            areas->runs[kept - 1].pages += (a->end - run_end(&areas->runs[kept - 1], page)) / page;
        first += count;
    }
    areas->run_count = kept;
}

void dump_areas_join(struct dump_areas *areas, uint64_t page, uint64_t heap_end)
{
    size_t kept_areas = 0, kept_runs = 0, first = 0;
    bool last_has_runs = false;
    for (size_t i = 0; i < areas->area_count; i++) {
        struct image_area a = areas->areas[i];
        size_t count = count_runs(areas, first, &a);
        if (is_file(&a) && count == 1 && image_run_covers(&areas->runs[first], &a, page)) {
            a.flags &= ~(uint32_t)IMAGE_AREA_FILE;
            a.file = 0;
            a.offset = 0;
        }
        struct image_area *last = kept_areas > 0 ? &areas->areas[kept_areas - 1] : NULL;
        bool joined = last != NULL && joins(last, &a, count > 0 || last_has_runs);
        if (joined) {
            last->end = a.end;
            last->prot |= a.prot;
        } else {
            areas->areas[kept_areas++] = a;
        }
        last_has_runs = count > 0 || (joined && last_has_runs);
        keep_runs(areas, &kept_runs, first, count, joined, page);
        first += count;
    }
    areas->area_count = kept_areas;
    areas->run_count = kept_runs;
    fill_gaps(areas, page, heap_end);
}
