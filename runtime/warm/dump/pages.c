/* Find the pages that a process has for itself (warm/dump/pagemap.h). These include relocated and written
 * pages of mapped files, not untouched ones. Also find guard pages, which the C library places at the end of
 * a thread's stack (glibc 2.42). */
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
#include "warm/dump/tracee.h"
#include "warm/dump/vmas.h"

/* The number of pages examined at once. */
#define BLOCK DUMP_CONTENTS_BLOCK

/* Consecutive pieces of VMAs. */
struct pieces {
    struct snapshot_extent *items;
    size_t count, room;
};

struct scan {
    const struct tracee *tracee;
    struct arena *arena;
    struct error *err;
    struct dump_vmas *out;
    struct pieces own, guards;
    struct dump_contents *contents;
    size_t based; /* the index of the range of the base that the last page was compared with */
    uint64_t page;
    struct dump_pagemap *pagemap;
    char *content; /* BLOCK pages */
};

static bool is_zero(const char *data, size_t size)
{
    static const uint64_t zeros[64];
    for (size_t i = 0; i < size; i += sizeof(zeros))
        if (!dump_vmas_equal(data + i, zeros, sizeof(zeros)))
            return false;
    return true;
}

static void add_page(struct scan *s, struct pieces *to, const struct snapshot_vma *a, uint64_t address)
{
    if (to->count > 0) {
        struct snapshot_extent *last = &to->items[to->count - 1];
        if (last->address >= a->start && last->address + last->pages * s->page == address) {
            last->pages++;
            return;
        }
    }
    if (to->count == to->room) {
        to->room = to->room * 2 + 256;
        struct snapshot_extent *grown = ARENA_ARRAY(s->arena, to->room, struct snapshot_extent);
        if (to->count > 0)
            memcpy(grown, to->items, to->count * sizeof(*grown));
        to->items = grown;
    }
    to->items[to->count++] = (struct snapshot_extent){.address = address, .pages = 1};
}

/* Return whether the process has the page for itself, and the page must be restored. */
static bool is_own(const struct scan *s, const struct snapshot_vma *a, uint64_t address, enum dump_page kind)
{
    const uint64_t used = s->out->stack_used;
    if ((a->flags & SNAPSHOT_VMA_STACK) != 0 && a->start <= used && used < a->end &&
        address + s->page <= used)
        return false;
    if (kind == DUMP_PAGE_GUARD || (a->flags & (SNAPSHOT_VMA_SHARED | SNAPSHOT_VMA_EMPTY)) != 0)
        return false;
    if ((a->flags & SNAPSHOT_VMA_FILE) == 0 && a->file == DUMP_BY_CONTENT)
        return true;
    return kind == DUMP_PAGE_PRIVATE;
}

/* Return whether the page is one of the base, unchanged. */
static bool is_based(struct scan *s, uint64_t address, enum dump_page kind)
{
    while (s->based < s->out->based_count && s->out->based[s->based].end <= address)
        s->based++;
    return s->based < s->out->based_count && s->out->based[s->based].start <= address &&
           kind == DUMP_PAGE_OTHER;
}

/* Add consecutive pages that it has for itself. Anonymous pages that contain only zeros are not stored: the
 * process has read them, or cleared them before use. */
static int add_pages(struct scan *s, const struct snapshot_vma *a, uint64_t address, size_t count)
{
    bool anonymous = (a->flags & SNAPSHOT_VMA_FILE) == 0;
    if ((a->prot & PROT_EXEC) != 0 && !snapshot_vma_is_copied(a))
        return error_text(s->err, -ENOTSUP, "a page of code at %#lx was written to", (unsigned long)address);
    char *room = dump_contents_room(s->contents), *content = room != NULL ? room : s->content;
    if (anonymous) {
        int ret = tracee_read(s->tracee, address, content, count * s->page, s->err);
        if (ret < 0)
            return ret;
    }
    for (size_t i = 0; i < count; i++)
        if (!anonymous || !is_zero(content + i * s->page, s->page))
            add_page(s, &s->own, a, address + i * s->page);
    return anonymous ? dump_contents_add(s->contents, address, content, count, s->err) : 0;
}

static int scan_block(struct scan *s, const struct snapshot_vma *a, uint64_t address, size_t count)
{
    enum dump_page kinds[BLOCK];
    bool own[BLOCK];
    int ret = dump_pagemap_read(s->pagemap, address, count, kinds, s->err);
    if (ret < 0)
        return ret;
    for (size_t i = 0; i < count; i++) {
        own[i] = is_own(s, a, address + i * s->page, kinds[i]);
        if (kinds[i] == DUMP_PAGE_GUARD)
            add_page(s, &s->guards, a, address + i * s->page);
    }
    for (size_t i = 0, end; i < count; i = end) {
        for (; i < count && own[i] && is_based(s, address + i * s->page, kinds[i]); i++)
            add_page(s, &s->own, a, address + i * s->page); /* not read */
        for (end = i; end < count && own[end] && !is_based(s, address + end * s->page, kinds[end]); end++)
            ;
        ret = end > i ? add_pages(s, a, address + i * s->page, end - i) : 0;
        if (ret < 0)
            return ret;
        while (end < count && !own[end])
            end++;
    }
    return 0;
}

static int scan_vmas(struct scan *s)
{
    for (size_t i = 0; i < s->out->vma_count; i++) {
        const struct snapshot_vma *a = &s->out->vmas[i];
        for (uint64_t at = a->start; at < a->end;) {
            uint64_t pages = (a->end - at) / s->page;
            size_t count = pages < BLOCK ? (size_t)pages : BLOCK;
            int ret = scan_block(s, a, at, count);
            if (ret < 0)
                return ret;
            at += count * s->page;
        }
    }
    return 0;
}

/* Return the part of the VMA from `start` to `end`. */
static struct snapshot_vma part_of(const struct snapshot_vma *a, uint64_t start, uint64_t end)
{
    struct snapshot_vma part = *a;
    part.start = start;
    part.end = end;
    if ((a->flags & SNAPSHOT_VMA_FILE) != 0)
        part.offset += start - a->start;
    return part;
}

/* Make a VMA of each piece between guards, and of each piece of guards. */
static int set_guards_apart(struct scan *s)
{
    struct dump_vmas *out = s->out;
    if (s->guards.count == 0)
        return 0;
    const struct snapshot_extent *guard = s->guards.items, *last = guard + s->guards.count;
    struct snapshot_vma *vmas =
        ARENA_ARRAY(s->arena, out->vma_count + 2 * s->guards.count, struct snapshot_vma);
    size_t count = 0;
    for (size_t i = 0; i < out->vma_count; i++) {
        const struct snapshot_vma *a = &out->vmas[i];
        uint64_t at = a->start;
        for (; guard < last && guard->address < a->end; guard++) {
            if ((a->flags & (SNAPSHOT_VMA_STACK | SNAPSHOT_VMA_DROPPABLE)) != 0)
                return error_text(s->err, -ENOTSUP, "memory at %#lx-%#lx has guard pages",
                                  (unsigned long)a->start, (unsigned long)a->end);
            if (at < guard->address)
                vmas[count++] = part_of(a, at, guard->address);
            at = guard->address + guard->pages * s->page;
            vmas[count] = part_of(a, guard->address, at);
            vmas[count++].flags |= SNAPSHOT_VMA_GUARD;
        }
        if (at < a->end)
            vmas[count++] = part_of(a, at, a->end);
    }
    out->vmas = vmas;
    out->vma_count = count;
    return 0;
}

int dump_vmas_scan(const struct tracee *t, struct arena *a, struct dump_vmas *vmas,
                   struct dump_contents *contents, struct error *err)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    __attribute__((cleanup(dump_pagemap_close))) struct dump_pagemap pagemap;
    int ret = dump_pagemap_open(t, &pagemap, err);
    if (ret < 0)
        return ret;
    cleanup_free char *content = malloc(BLOCK * page);
    if (content == NULL)
        return error_set(err, -ENOMEM, "read memory");
    struct scan scan = {.tracee = t,
                        .arena = a,
                        .err = err,
                        .out = vmas,
                        .contents = contents,
                        .page = page,
                        .pagemap = &pagemap,
                        .content = content};
    ret = scan_vmas(&scan);
    if (ret == 0)
        ret = set_guards_apart(&scan);
    vmas->extents = scan.own.items;
    vmas->extent_count = scan.own.count;
    return ret;
}
