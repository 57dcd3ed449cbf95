/* Find the write set by /proc/PID/pagemap (Documentation/admin-guide/mm/pagemap.rst). Of the memory that is
 * shared after fork(2), a process has the pages that it has written to for itself. A restore works without
 * the write set. A builder that falsifies it costs its own containers time and memory at worst. */
#include "warm/dump/writes.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/proc.h"
#include "warm/snapshot/snapshot.h"

#define PAGEMAP_PRESENT   (1ULL << 63)
#define PAGEMAP_FILE      (1ULL << 61) /* of a file, or shared */
#define PAGEMAP_EXCLUSIVE (1ULL << 56) /* mapped only by this process */

/* Pages; pandas writes to 320. */
#define WRITES_MAX 4096

/* The number of pages examined at once. */
#define BLOCK 512

struct writes {
    struct arena *arena;
    struct snapshot_write *items;
    size_t count, room, pages;
    uint64_t page;
    int pagemap;
};

static void add_page(struct writes *w, const struct snapshot_vma *a, uint64_t address)
{
    struct snapshot_write *last = w->count > 0 ? &w->items[w->count - 1] : NULL;
    w->pages++;
    if (last != NULL && last->address >= a->start && last->address + last->pages * w->page == address) {
        last->pages++;
        return;
    }
    if (w->count == w->room) {
        struct snapshot_write *larger = ARENA_ARRAY(w->arena, 2 * w->room + 256, struct snapshot_write);
        if (w->count > 0)
            memcpy(larger, w->items, w->count * sizeof(*larger));
        w->items = larger;
        w->room = 2 * w->room + 256;
    }
    w->items[w->count++] = (struct snapshot_write){.address = address, .pages = 1};
}

static bool scan_vma(struct writes *w, const struct snapshot_vma *a)
{
    uint64_t entries[BLOCK];
    for (uint64_t at = a->start; at < a->end;) {
        uint64_t rest = (a->end - at) / w->page;
        size_t count = rest < BLOCK ? (size_t)rest : BLOCK, size = count * sizeof(*entries);
        if (pread(w->pagemap, entries, size, (off_t)(at / w->page * sizeof(*entries))) != (ssize_t)size)
            return false;
        for (size_t i = 0; i < count; i++)
            if ((entries[i] & (PAGEMAP_PRESENT | PAGEMAP_EXCLUSIVE | PAGEMAP_FILE)) ==
                (PAGEMAP_PRESENT | PAGEMAP_EXCLUSIVE))
                add_page(w, a, at + i * w->page);
        at += count * w->page;
    }
    return w->pages <= WRITES_MAX;
}

/* Skip VMAs that are copied in any case or have no pages in the snapshot. */
static bool is_written_to(const struct snapshot_vma *a)
{
    return (a->prot & PROT_WRITE) != 0 && (a->flags & (SNAPSHOT_VMA_SHARED | SNAPSHOT_VMA_EMPTY)) == 0 &&
           !snapshot_vma_is_copied(a);
}

void dump_writes_scan(int pagemap, struct arena *a, struct snapshot_parts *parts)
{
    struct writes w = {.arena = a, .page = (uint64_t)sysconf(_SC_PAGESIZE), .pagemap = pagemap};
    bool complete = true;
    for (size_t i = 0; complete && i < parts->vma_count; i++)
        if (is_written_to(&parts->vmas[i]))
            complete = scan_vma(&w, &parts->vmas[i]);
    if (!complete)
        return;
    parts->writes = w.items;
    parts->write_count = w.count;
}

/* The kernel leaves a private mapping of a file out of a core dump until a page of it was written to
 * (core(5)). Anonymous memory is never left out. So add a page of each writable extent that has none. */
static void add_dumped(struct arena *a, struct snapshot_parts *parts)
{
    struct snapshot_write *all =
        ARENA_ARRAY(a, parts->write_count + parts->extent_count, struct snapshot_write);
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    size_t count = 0, vma = 0, next = 0;
    for (size_t i = 0; i < parts->extent_count; i++) {
        const struct snapshot_extent *r = &parts->extents[i];
        while (parts->vmas[vma].end <= r->address)
            vma++;
        while (next < parts->write_count && parts->writes[next].address < r->address)
            all[count++] = parts->writes[next++];
        if ((next == parts->write_count || parts->writes[next].address >= r->address + r->pages * page) &&
            (count == 0 || all[count - 1].address + all[count - 1].pages * page <= r->address) &&
            is_written_to(&parts->vmas[vma]))
            all[count++] = (struct snapshot_write){.address = r->address, .pages = 1, .for_dumps = 1};
    }
    while (next < parts->write_count)
        all[count++] = parts->writes[next++];
    parts->writes = all;
    parts->write_count = count;
}

void dump_writes(pid_t pid, const struct stat *pid_namespace, struct arena *a, struct snapshot_parts *parts)
{
    cleanup_fd int proc = pid > 0 ? proc_open_process(pid, NULL) : -1;
    if (proc >= 0 && (pid_namespace == NULL || proc_in_pid_namespace(proc, pid_namespace) == 1)) {
        cleanup_fd int pagemap = openat(proc, "pagemap", O_RDONLY | O_CLOEXEC);
        if (pagemap >= 0)
            dump_writes_scan(pagemap, a, parts);
    }
    add_dumped(a, parts);
}
