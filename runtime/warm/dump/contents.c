/* Keep the pages of a process while they are examined (warm/dump/contents.h). */
#include "warm/dump/contents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "warm/dump/request.h"
#include "warm/dump/vmas.h"

/* Bytes of data that are kept, and of a huge page: without these, each page costs a fault. */
#define KEPT_MOST (64UL << 20)
#define HUGE_PAGE (2UL << 20)

int dump_contents_open(struct dump_contents *out, const struct dump_base *base, const struct dump_vmas *vmas,
                       struct arena *a, struct error *err)
{
    *out = (struct dump_contents){.arena = a, .cursor = {.base = base, .vmas = vmas}};
    out->page = (uint64_t)sysconf(_SC_PAGESIZE);
    void *kept = mmap(NULL, KEPT_MOST + HUGE_PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (kept == MAP_FAILED)
        return error_set(err, -ENOMEM, "read memory");
    (void)madvise(kept, KEPT_MOST + HUGE_PAGE, MADV_HUGEPAGE);
    out->kept = kept;
    out->used = -(uintptr_t)kept % HUGE_PAGE;
    out->base = malloc(DUMP_CONTENTS_BLOCK * out->page);
    return out->base != NULL ? 0 : error_set(err, -ENOMEM, "read memory");
}

void dump_contents_close(struct dump_contents *c)
{
    if (c->kept != NULL)
        munmap(c->kept, KEPT_MOST + HUGE_PAGE);
    free(c->base);
    c->kept = c->base = NULL;
}

uint64_t dump_contents_position(struct dump_contents_cursor *c, uint64_t address, bool *mapped)
{
    const struct snapshot *snapshot = c->base->snapshot;
    const struct dump_base_range *r = c->vmas->based;
    const struct snapshot_extent *e = snapshot->extents;
    const uint64_t page = snapshot->header->page_size;
    uint64_t at = 0;
    while (c->range < c->vmas->based_count && r[c->range].end <= address)
        c->range++;
    while (c->extent < snapshot->extent_count && e[c->extent].address + e[c->extent].pages * page <= address)
        c->extent++;
    *mapped = c->range < c->vmas->based_count && r[c->range].start <= address;
    if (*mapped)
        at = address + r[c->range].shift;
    else if (c->extent < snapshot->extent_count && e[c->extent].address <= address)
        at = e[c->extent].offset + (address - e[c->extent].address);
    return at <= c->base->identity.size - page ? at : 0;
}

static void add_item(struct dump_contents *c, const struct dump_content *item)
{
    if (c->count == c->room) {
        c->room = 2 * c->room + 1024;
        struct dump_content *larger = ARENA_ARRAY(c->arena, c->room, struct dump_content);
        if (c->count > 0)
            memcpy(larger, c->items, c->count * sizeof(*larger));
        c->items = larger;
    }
    c->items[c->count++] = *item;
}

static void add_page(struct dump_contents *c, uint64_t address, const char *data, uint64_t at,
                     const char *based)
{
    struct dump_content item = {.address = address};
    if (at != 0 && dump_vmas_equal(data, based, c->page)) {
        item.same = at;
    } else {
        if (KEPT_MOST - c->used < c->page) {
            c->incomplete = true;
            return;
        }
        char *to = c->kept + c->used;
        item.data = to == data ? to : memcpy(to, data, c->page);
        c->used += c->page;
    }
    add_item(c, &item);
}

char *dump_contents_room(const struct dump_contents *c)
{
    return KEPT_MOST - c->used >= DUMP_CONTENTS_BLOCK * c->page ? c->kept + c->used : NULL;
}

/* The file is read, because to map it costs more: pages that differ are far from each other. */
int dump_contents_add(struct dump_contents *c, uint64_t address, const char *data, size_t pages,
                      struct error *err)
{
    uint64_t at[DUMP_CONTENTS_BLOCK] = {0};
    bool mapped;
    for (size_t i = 0; c->cursor.base != NULL && i < pages; i++)
        at[i] = dump_contents_position(&c->cursor, address + i * c->page, &mapped);
    for (size_t i = 0, end; i < pages; i = end) {
        for (end = i + 1; end < pages && at[i] != 0 && at[end] == at[end - 1] + c->page; end++)
            ;
        const size_t size = (end - i) * c->page;
        ssize_t n = at[i] == 0 ? 0 : RETRY(pread(c->cursor.base->fd, c->base, size, (off_t)at[i]));
        if (at[i] != 0 && n != (ssize_t)size)
            return error_set(err, n < 0 ? -errno : -EIO, "compare with snapshot '%s'",
                             c->cursor.base->identity.name);
        for (size_t k = i; k < end; k++)
            add_page(c, address + k * c->page, data + k * c->page, at[k], c->base + (k - i) * c->page);
    }
    return 0;
}

const struct dump_content *dump_contents_find(struct dump_contents *c, uint64_t address)
{
    if (c->next > 0 && c->items[c->next - 1].address >= address)
        c->next = 0;
    while (c->next < c->count && c->items[c->next].address < address)
        c->next++;
    return c->next < c->count && c->items[c->next].address == address ? &c->items[c->next++] : NULL;
}
