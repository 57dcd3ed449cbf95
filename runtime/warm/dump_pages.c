/* The pages that a process has for itself, by /proc/PID/pagemap (Documentation/admin-guide/mm/pagemap.rst).
 * Relocated and written-to pages of mapped files are among them, untouched ones are not. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "warm/dump_areas.h"
#include "warm/dump_tracee.h"

#define PAGEMAP_PRESENT (1ULL << 63)
#define PAGEMAP_SWAPPED (1ULL << 62)
#define PAGEMAP_FILE    (1ULL << 61) /* of a file, or shared */

/* Pages looked at at once. */
#define BLOCK 512

struct scan {
    const struct tracee *tracee;
    struct arena *arena;
    struct error *err;
    struct dump_areas *out;
    size_t room; /* of out->runs */
    uint64_t page;
    int pagemap;
    char *content; /* BLOCK pages */
};

static bool is_zero(const char *data, size_t size)
{
    return data[0] == 0 && memcmp(data, data + 1, size - 1) == 0;
}

static void add_page(struct scan *s, const struct image_area *a, uint64_t address)
{
    struct dump_areas *out = s->out;
    if (out->run_count > 0) {
        struct image_run *last = &out->runs[out->run_count - 1];
        if (last->address >= a->start && last->address + last->pages * s->page == address) {
            last->pages++;
            return;
        }
    }
    if (out->run_count == s->room) {
        s->room = s->room * 2 + 256;
        struct image_run *grown = ARENA_ARRAY(s->arena, s->room, struct image_run);
        if (out->run_count > 0)
            memcpy(grown, out->runs, out->run_count * sizeof(*grown));
        out->runs = grown;
    }
    out->runs[out->run_count++] = (struct image_run){.address = address, .pages = 1};
}

/* A process has it for itself. */
static bool is_own(const struct image_area *a, uint64_t entry)
{
    if ((a->flags & IMAGE_AREA_FILE) == 0 && a->file == DUMP_BY_CONTENT)
        return true;
    return (entry & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED)) != 0 && (entry & PAGEMAP_FILE) == 0;
}

/* Pages one behind the other that it has for itself. Anonymous ones of nothing but zeros need not be stored;
 * they are there because somebody read them, or cleared them before use. */
static int add_pages(struct scan *s, const struct image_area *a, uint64_t address, size_t count)
{
    bool anonymous = (a->flags & IMAGE_AREA_FILE) == 0;
    if ((a->prot & PROT_EXEC) != 0 && !image_area_is_copied(a))
        return error_text(s->err, -ENOTSUP, "a page of code at %#lx was written to", (unsigned long)address);
    if (anonymous) {
        int ret = tracee_read(s->tracee, address, s->content, count * s->page, s->err);
        if (ret < 0)
            return ret;
    }
    for (size_t i = 0; i < count; i++)
        if (!anonymous || !is_zero(s->content + i * s->page, s->page))
            add_page(s, a, address + i * s->page);
    return 0;
}

static int scan_block(struct scan *s, const struct image_area *a, uint64_t address, size_t count)
{
    uint64_t entries[BLOCK];
    size_t size = count * sizeof(*entries);
    ssize_t n = pread(s->pagemap, entries, size, (off_t)(address / s->page * sizeof(*entries)));
    if (n != (ssize_t)size)
        return error_set(s->err, n < 0 ? -errno : -EIO, "read '/proc/%d/pagemap'", (int)s->tracee->pid);
    for (size_t i = 0, end; i < count; i = end + 1) {
        for (end = i; end < count && is_own(a, entries[end]); end++)
            ;
        int ret = end > i ? add_pages(s, a, address + i * s->page, end - i) : 0;
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int scan_areas(struct scan *s)
{
    for (size_t i = 0; i < s->out->area_count; i++) {
        const struct image_area *a = &s->out->areas[i];
        if ((a->flags & (IMAGE_AREA_SHARED | IMAGE_AREA_EMPTY)) != 0)
            continue;
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

int dump_areas_scan(const struct tracee *t, struct arena *a, struct dump_areas *areas, struct error *err)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    cleanup_fd int pagemap = openat(t->proc, "pagemap", O_RDONLY | O_CLOEXEC);
    if (pagemap < 0)
        return error_set(err, -errno, "open '/proc/%d/pagemap'", (int)t->pid);
    cleanup_free char *content = malloc(BLOCK * page);
    if (content == NULL)
        return error_set(err, -ENOMEM, "read memory");
    struct scan scan = {.tracee = t,
                        .arena = a,
                        .err = err,
                        .out = areas,
                        .page = page,
                        .pagemap = pagemap,
                        .content = content};
    return scan_areas(&scan);
}
