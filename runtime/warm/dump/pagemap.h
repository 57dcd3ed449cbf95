/* Tell which pages a stopped process has for itself: /proc/PID/pagemap
 * (Documentation/admin-guide/mm/pagemap.rst). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;
struct tracee;

enum dump_page {
    DUMP_PAGE_OTHER, /* never used, or of a file */
    DUMP_PAGE_PRIVATE,
    DUMP_PAGE_GUARD, /* MADV_GUARD_INSTALL */
};

/* A range as the kernel lists it: struct page_region of linux/fs.h. */
struct dump_page_region {
    uint64_t start, end, categories;
};

#define DUMP_PAGE_REGIONS 512

/* The number of pages of which the kinds are read at once, at most. */
#define DUMP_PAGES 512

struct dump_pagemap {
    pid_t pid;
    int fd;
    uint64_t page;
    bool lists; /* the kernel lists ranges; without that, there is an entry for each page */
    struct dump_page_region regions[DUMP_PAGE_REGIONS];
    size_t count, next;
    uint64_t from, to; /* the addresses of which the regions are known */
};

/* Always pass `out` to dump_pagemap_close. Return 0 or negative errno. */
int dump_pagemap_open(const struct tracee *t, struct dump_pagemap *out, struct error *err);
void dump_pagemap_close(struct dump_pagemap *pagemap);

/* Read the kinds of `count` pages from an address on. It is fastest with addresses that follow each other. */
int dump_pagemap_read(struct dump_pagemap *pagemap, uint64_t address, size_t count, enum dump_page *kinds,
                      struct error *err);
