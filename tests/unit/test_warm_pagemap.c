/* The kinds of pages, from the kernel's list and from the entries of single pages. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "unit.h"
#include "warm/dump/pagemap.h"
#include "warm/dump/tracee.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define MANY (3 * DUMP_PAGE_REGIONS) /* of these every second one is a region */

static uint64_t page;
static struct tracee own = {.memory = -1};

static char *make_memory(size_t pages, int fd)
{
    int flags = MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0);
    char *memory = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (memory == MAP_FAILED)
        bail_out("mmap");
    (void)madvise(memory, pages * page, MADV_NOHUGEPAGE);
    return memory;
}

/* Read the kinds as text: a letter for each page. Return whether the kernel has listed them. */
static bool read_kinds(const char *memory, size_t pages, bool list, char *text)
{
    static struct dump_pagemap pagemap;
    struct error err = {0};
    int ret = dump_pagemap_open(&own, &pagemap, &err);
    pagemap.lists = pagemap.lists && list;
    for (size_t i = 0; ret == 0 && i < pages; i += DUMP_PAGES) {
        enum dump_page kinds[DUMP_PAGES];
        size_t count = pages - i < DUMP_PAGES ? pages - i : DUMP_PAGES;
        ret = dump_pagemap_read(&pagemap, (uintptr_t)memory + i * page, count, kinds, &err);
        for (size_t k = 0; ret == 0 && k < count; k++)
            text[i + k] = ".pg"[kinds[k]];
    }
    text[pages] = '\0';
    dump_pagemap_close(&pagemap);
    is_int(ret, 0, "the pages are read");
    return pagemap.lists;
}

static bool may_list(void)
{
    struct utsname host;
    int major = 0, minor = 0;
    return uname(&host) == 0 && sscanf(host.release, "%d.%d", &major, &minor) == 2 &&
           (major > 6 || (major == 6 && minor >= 16));
}

static void test_kinds(void)
{
    char listed[8], entries[8], expected[] = "pp.p...";
    char *memory = make_memory(7, -1);
    memory[0] = memory[3 * page] = 1;
    (void)*(volatile char *)(memory + page);
    if (madvise(memory + 4 * page, 2 * page, MADV_GUARD_INSTALL) == 0)
        expected[4] = expected[5] = 'g';
    bool lists = read_kinds(memory, 7, true, listed);
    if (may_list())
        ok(lists, "this kernel lists pages");
    is_str(listed, expected, "of memory: written to, read, untouched, guards");
    read_kinds(memory, 7, false, entries);
    is_str(entries, expected, "the same from the entry of each page");
    munmap(memory, 7 * page);
}

static void test_file(void)
{
    char listed[4], entries[4];
    cleanup_fd int fd = memfd_create("file", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)(3 * page)) < 0)
        bail_out("memfd");
    char *memory = make_memory(3, fd);
    memory[page] = 1;
    (void)*(volatile char *)memory;
    read_kinds(memory, 3, true, listed);
    is_str(listed, ".p.", "of a file: only the page that was written to");
    read_kinds(memory, 3, false, entries);
    is_str(entries, ".p.", "the same from the entry of each page");
    munmap(memory, 3 * page);
}

static void test_many(void)
{
    static char listed[MANY + 1], entries[MANY + 1], expected[MANY + 1];
    char *memory = make_memory(MANY, -1);
    for (size_t i = 0; i < MANY; i++) {
        expected[i] = i % 2 == 0 ? 'p' : '.';
        if (i % 2 == 0)
            memory[i * page] = 1;
    }
    read_kinds(memory, MANY, true, listed);
    is_str(listed, expected, "more regions than are listed at once");
    read_kinds(memory, MANY, false, entries);
    is_str(entries, expected, "the same from the entry of each page");
    munmap(memory, MANY * page);
}

int main(void)
{
    page = (uint64_t)sysconf(_SC_PAGESIZE);
    own.pid = getpid();
    own.proc = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (own.proc < 0)
        bail_out("open /proc/self");
    test_kinds();
    test_file();
    test_many();
    fd_close(&own.proc);
    return done_testing();
}
