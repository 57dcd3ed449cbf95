/* Compare the pages of a process with those of the snapshot that it was restored from (warm/dump/base.h). A
 * page of its private mapping that /proc/PID/pagemap shows as the file's is the same. Others are compared. */
#include "warm/dump/base.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "warm/dump/contents.h"
#include "warm/dump/pagemap.h"
#include "warm/dump/request.h"
#include "warm/dump/tracee.h"
#include "warm/dump/vmas.h"

/* The number of pages examined at once. */
#define BLOCK DUMP_PAGES

struct comparison {
    const struct tracee *tracee;
    const struct dump_vmas *vmas;
    struct dump_contents_cursor cursor;
    struct dump_contents *contents;
    const char *map; /* the file of the base */
    char *content;   /* BLOCK pages of the process */
    struct error *err;
    uint64_t page;
    struct dump_pagemap *pagemap;
    size_t vma; /* an index, which moves on with the addresses */
    struct snapshot_extent *out;
    size_t count, room, first; /* first: of the extent that is being divided */
    struct snapshot_patch *patches;
    size_t patch_count, patch_room;
    struct arena *arena;
};

static void *grow(struct arena *a, void *items, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return items;
    *room = 2 * *room + 256;
    void *larger = arena_alloc(a, *room * size);
    if (count > 0)
        memcpy(larger, items, count * size);
    return larger;
}

/* Add a page to the extents: of the base if `at` is not 0. */
static void add_page(struct comparison *c, uint64_t address, uint64_t at)
{
    struct snapshot_extent *last = c->count > c->first ? &c->out[c->count - 1] : NULL;
    if (last != NULL && (last->of_base != 0) == (at != 0) &&
        (at == 0 || last->offset + last->pages * c->page == at)) {
        last->pages++;
        return;
    }
    c->out = grow(c->arena, c->out, c->count, &c->room, sizeof(*c->out));
    c->out[c->count++] =
        (struct snapshot_extent){.address = address, .pages = 1, .offset = at, .of_base = at != 0};
}

/* Where a small extent is all that divides one of the base, make it a patch. */
static void join_last(struct comparison *c)
{
    struct snapshot_extent *e = &c->out[c->count - 1];
    if (c->count - c->first < 3 || (c->vmas->vmas[c->vma].prot & PROT_WRITE) == 0)
        return;
    e -= 2;
    const uint64_t between = e[1].pages;
    if (e[0].of_base == 0 || e[1].of_base != 0 || e[2].of_base == 0 || between > SNAPSHOT_PATCH_MAX ||
        e[0].offset + (e[0].pages + between) * c->page != e[2].offset)
        return;
    c->patches = grow(c->arena, c->patches, c->patch_count, &c->patch_room, sizeof(*c->patches));
    c->patches[c->patch_count++] = (struct snapshot_patch){.address = e[1].address, .pages = between};
    e[0].pages += between + e[2].pages;
    c->count -= 2;
}

static int compare_block(struct comparison *c, uint64_t address, size_t count)
{
    uint64_t at[BLOCK];
    enum dump_page kinds[BLOCK] = {DUMP_PAGE_OTHER};
    bool same[BLOCK]; /* known to be, or not to be, unchanged */
    /* If all private pages were kept, those that are not known are of the file. */
    int ret = c->contents->incomplete ? dump_pagemap_read(c->pagemap, address, count, kinds, c->err) : 0;
    if (ret < 0)
        return ret;
    for (size_t i = 0; i < count; i++) {
        const struct dump_content *known = dump_contents_find(c->contents, address + i * c->page);
        at[i] = dump_contents_position(&c->cursor, address + i * c->page, &same[i]);
        same[i] = (same[i] && kinds[i] != DUMP_PAGE_PRIVATE) || known != NULL;
        if (known != NULL)
            at[i] = known->same;
    }
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && at[end] != 0 && !same[end]; end++)
            ;
        ret = end == i ? 0
                       : tracee_read(c->tracee, address + i * c->page, c->content + i * c->page,
                                     (end - i) * c->page, c->err);
        if (ret < 0)
            return ret;
        for (; i < end; i++)
            if (!dump_vmas_equal(c->content + i * c->page, c->map + at[i], c->page))
                at[i] = 0;
        while (end < count && (at[end] == 0 || same[end]))
            end++;
    }
    for (size_t i = 0; i < count; i++) {
        const size_t before = c->count;
        add_page(c, address + i * c->page, at[i]);
        if (c->count > before)
            join_last(c);
    }
    return 0;
}

static int compare(struct comparison *c, const struct snapshot_extent *extents, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct snapshot_extent *r = &extents[i];
        while (c->vmas->vmas[c->vma].end <= r->address)
            c->vma++;
        c->first = c->count;
        for (uint64_t done = 0; done < r->pages;) {
            uint64_t part = r->pages - done < BLOCK ? r->pages - done : BLOCK;
            int ret = compare_block(c, r->address + done * c->page, (size_t)part);
            if (ret < 0)
                return ret;
            done += part;
        }
    }
    return 0;
}

int dump_base_leave_out(const struct tracee *t, const struct dump_base *base, const struct dump_vmas *vmas,
                        struct dump_contents *contents, struct arena *a, struct snapshot_parts *parts,
                        struct error *err)
{
    const uint64_t size = base->identity.size;
    struct comparison c = {.tracee = t,
                           .vmas = vmas,
                           .cursor = {.base = base, .vmas = vmas},
                           .contents = contents,
                           .err = err,
                           .page = (uint64_t)sysconf(_SC_PAGESIZE),
                           .arena = a};
    __attribute__((cleanup(dump_pagemap_close))) struct dump_pagemap pagemap;
    int ret = dump_pagemap_open(t, &pagemap, err);
    if (ret < 0)
        return ret;
    cleanup_free char *content = malloc(BLOCK * c.page);
    void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, base->fd, 0);
    if (content == NULL || map == MAP_FAILED) {
        if (map != MAP_FAILED)
            munmap(map, size);
        return error_set(err, -ENOMEM, "compare with snapshot '%s'", base->identity.name);
    }
    c.pagemap = &pagemap;
    c.content = content;
    c.map = map;
    ret = compare(&c, parts->extents, parts->extent_count);
    munmap(map, size);
    if (ret < 0)
        return ret;
    parts->extents = c.out;
    parts->extent_count = c.count;
    parts->patches = c.patches;
    parts->patch_count = c.patch_count;
    parts->header.base = base->identity;
    return 0;
}
