/* Read /proc/PID/pagemap (warm/dump/pagemap.h). PAGEMAP_SCAN lists the pages of many VMAs in one call: since
 * Linux 6.7, and guard pages since 6.16. Before, or if it fails, the entry of each page is read. */
#include "warm/dump/pagemap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "warm/dump/tracee.h"
#include "warm/snapshot/snapshot.h"

#define ENTRY_PRESENT (1ULL << 63)
#define ENTRY_SWAPPED (1ULL << 62)
#define ENTRY_FILE    (1ULL << 61) /* of a file, or shared */
/* MADV_GUARD_INSTALL, reported since Linux 6.15. In the two releases before, such a page only appears swapped
 * out, and cannot be read: no snapshot. */
#define ENTRY_GUARD (1ULL << 58)

/* PAGE_IS_… and struct pm_scan_arg of linux/fs.h, which are newer than the headers of the oldest supported
 * distribution. */
#define IS_FILE    (1ULL << 2)
#define IS_PRESENT (1ULL << 3)
#define IS_SWAPPED (1ULL << 4)
#define IS_GUARD   (1ULL << 8)

struct scan_argument {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t inverted, all_of, any_of, returned; /* categories */
};

#define SCAN _IOWR('f', 16, struct scan_argument)

int dump_pagemap_open(const struct tracee *t, struct dump_pagemap *out, struct error *err)
{
    *out = (struct dump_pagemap){.pid = t->pid, .page = (uint64_t)sysconf(_SC_PAGESIZE), .lists = true};
    out->fd = openat(t->proc, "pagemap", O_RDONLY | O_CLOEXEC);
    return out->fd < 0 ? error_set(err, -errno, "open '/proc/%d/pagemap'", (int)t->pid) : 0;
}

void dump_pagemap_close(struct dump_pagemap *p)
{
    fd_close(&p->fd);
}

/* List the private pages and guards from the address on. Return false if the kernel cannot. */
static bool list_regions(struct dump_pagemap *p, uint64_t address)
{
    struct scan_argument scan = {
        .size = sizeof(scan),
        .start = address,
        .end = SNAPSHOT_HIGHEST,
        .vec = (uintptr_t)p->regions,
        .vec_len = DUMP_PAGE_REGIONS,
        .inverted = IS_FILE,
        .all_of = IS_FILE,
        .any_of = IS_PRESENT | IS_SWAPPED | IS_GUARD,
        .returned = IS_GUARD,
    };
    int count = RETRY(ioctl(p->fd, SCAN, &scan));
    if (count < 0 || scan.walk_end <= address)
        return false;
    p->from = address;
    p->to = scan.walk_end;
    p->count = (size_t)count;
    p->next = 0;
    return true;
}

static enum dump_page listed(struct dump_pagemap *p, uint64_t address)
{
    if (p->next > 0 && p->regions[p->next - 1].end > address)
        p->next = 0;
    while (p->next < p->count && p->regions[p->next].end <= address)
        p->next++;
    if (p->next == p->count || p->regions[p->next].start > address)
        return DUMP_PAGE_OTHER;
    return (p->regions[p->next].categories & IS_GUARD) != 0 ? DUMP_PAGE_GUARD : DUMP_PAGE_PRIVATE;
}

static enum dump_page kind_of(uint64_t entry)
{
    if ((entry & ENTRY_GUARD) != 0)
        return DUMP_PAGE_GUARD;
    bool is_private = (entry & (ENTRY_PRESENT | ENTRY_SWAPPED)) != 0 && (entry & ENTRY_FILE) == 0;
    return is_private ? DUMP_PAGE_PRIVATE : DUMP_PAGE_OTHER;
}

static int read_entries(const struct dump_pagemap *p, uint64_t address, size_t count, enum dump_page *kinds,
                        struct error *err)
{
    uint64_t entries[DUMP_PAGES];
    size_t size = count * sizeof(*entries);
    ssize_t n = RETRY(pread(p->fd, entries, size, (off_t)(address / p->page * sizeof(*entries))));
    if (n != (ssize_t)size)
        return error_set(err, n < 0 ? -errno : -EIO, "read '/proc/%d/pagemap'", (int)p->pid);
    for (size_t i = 0; i < count; i++)
        kinds[i] = kind_of(entries[i]);
    return 0;
}

int dump_pagemap_read(struct dump_pagemap *p, uint64_t address, size_t count, enum dump_page *kinds,
                      struct error *err)
{
    for (size_t i = 0; p->lists && i < count; i++) {
        const uint64_t at = address + i * p->page;
        if (at < p->from || at >= p->to)
            p->lists = list_regions(p, at);
        kinds[i] = listed(p, at);
    }
    return p->lists ? 0 : read_entries(p, address, count, kinds, err);
}
