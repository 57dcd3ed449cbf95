/* Text and tables of /proc/PID for a saved process. x86-64, as warm/dump/dump.h. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "targets.h"
#include "warm/dump/contents.h"
#include "warm/dump/join.h"
#include "warm/dump/text.h"
#include "warm/dump/tracee.h"
#include "warm/dump/vmas.h"
#include "warm/dump/writes.h"
#include "warm/snapshot/snapshot.h"

#define AGENT "/dev/agent"

static uint64_t page_size(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The properties of every table of VMAs: ordered, whole pages, and each file is in the table. */
static void check_vmas(const struct dump_vmas *vmas)
{
    uint64_t last = 0;
    for (size_t i = 0; i < vmas->vma_count; i++) {
        const struct snapshot_vma *a = &vmas->vmas[i];
        fuzz_require(last <= a->start && a->start < a->end && (a->start | a->end) % page_size() == 0);
        fuzz_require((a->flags & ~(uint32_t)SNAPSHOT_VMA_FLAGS) == 0);
        fuzz_require((a->flags & SNAPSHOT_VMA_FILE) == 0 || a->file == SNAPSHOT_FILE_AGENT ||
                     a->file < vmas->file_count);
        last = a->end;
    }
}

static void check_extents(const struct dump_vmas *vmas)
{
    struct snapshot snapshot = {.vmas = vmas->vmas, .vma_count = vmas->vma_count};
    uint64_t last = 0;
    for (size_t i = 0; i < vmas->extent_count; i++) {
        const struct snapshot_extent *r = &vmas->extents[i];
        fuzz_require(last <= r->address && r->pages > 0 && r->address % page_size() == 0);
        const struct snapshot_vma *a = snapshot_vma_at(&snapshot, r->address, r->pages * page_size());
        fuzz_require(a != NULL &&
                     (a->flags & (SNAPSHOT_VMA_SHARED | SNAPSHOT_VMA_EMPTY | SNAPSHOT_VMA_GUARD)) == 0);
        last = r->address + r->pages * page_size();
    }
}

void fuzz_smaps(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct error error = {0};
    struct dump_vmas vmas = {0};
    char *text = fuzz_text(data, size);
    int ret = dump_vmas_parse(text, 1, &arena, AGENT, &vmas, &error);
    fuzz_check_error(ret, &error);
    if (ret == 0) {
        check_vmas(&vmas);
        fuzz_require(vmas.vdso_count <= SNAPSHOT_MAX_VDSO);
        dump_vmas_join(&vmas, page_size(), 0);
        check_vmas(&vmas);
    }
    free(text);
    arena_free(&arena);
}

/* The first page numbers from which VMAs are made, and as many as the tables have. */
#define FIRST_PAGE     16
#define MAX_PAGES      2048
#define MAX_VMAS       16
#define PRESENT        (1ULL << 63)
#define FILE_OR_SHARED (1ULL << 61)
#define SWAPPED        (1ULL << 62)
#define GUARD          (1ULL << 58)
#define EXCLUSIVE      (1ULL << 56)

/* VMAs: gap, pages, protection and kind; one file of two. */
static void take_vmas(struct fuzz_input *input, struct arena *a, struct dump_vmas *out)
{
    static const uint32_t kinds[] = {0,
                                     0,
                                     SNAPSHOT_VMA_FILE,
                                     SNAPSHOT_VMA_FILE | SNAPSHOT_VMA_SHARED,
                                     SNAPSHOT_VMA_WIPEONFORK,
                                     SNAPSHOT_VMA_DROPPABLE,
                                     SNAPSHOT_VMA_NOHUGEPAGE,
                                     SNAPSHOT_VMA_STACK};
    uint64_t at = FIRST_PAGE, page = page_size();
    size_t count = fuzz_take(input, 1) % MAX_VMAS;
    bool stack = false;
    *out = (struct dump_vmas){.vmas = ARENA_ARRAY(a, MAX_VMAS + 2, struct snapshot_vma),
                              .files = ARENA_ARRAY(a, 2, struct dump_file),
                              .file_count = 2};
    for (size_t i = 0; i < count; i++) {
        uint64_t start = at + fuzz_take(input, 1) % 32, pages = fuzz_take(input, 1) % 64 + 1;
        uint32_t what = (uint32_t)fuzz_take(input, 1), kind = kinds[what & 7];
        struct snapshot_vma vma = {.start = start * page, .end = (start + pages) * page, .flags = kind};
        vma.prot = (what >> 3) & (PROT_READ | PROT_WRITE | PROT_EXEC);
        at = start + pages;
        if ((kind & SNAPSHOT_VMA_SHARED) != 0)
            vma.prot &= ~(uint32_t)PROT_WRITE;
        if ((kind & SNAPSHOT_VMA_FILE) != 0) {
            vma.file = (what >> 6) & 1;
            vma.offset = fuzz_take(input, 1) * page;
            if ((vma.prot & PROT_EXEC) != 0)
                vma.prot &= ~(uint32_t)PROT_WRITE;
        } else if ((what & 0xc0) == 0xc0 && (vma.prot & PROT_EXEC) == 0) {
            vma.file = DUMP_BY_CONTENT;
        }
        if ((kind & SNAPSHOT_VMA_STACK) != 0 && stack)
            vma.flags = 0;
        stack |= (kind & SNAPSHOT_VMA_STACK) != 0;
        out->vmas[out->vma_count++] = vma;
    }
}

/* Each entry of the table: a number of pages, and their kind. The first byte of a page is its content. */
static void take_pages(struct fuzz_input *input, const struct dump_vmas *vmas, uint64_t *entries, int memory)
{
    static const uint64_t bits[] = {PRESENT, SWAPPED, GUARD, FILE_OR_SHARED, EXCLUSIVE};
    memset(entries, 0, MAX_PAGES * sizeof(*entries));
    if (ftruncate(memory, 0) < 0 || ftruncate(memory, (off_t)(MAX_PAGES * page_size())) < 0)
        abort();
    for (size_t i = 0; i < vmas->vma_count; i++)
        for (uint64_t p = vmas->vmas[i].start / page_size(); p < vmas->vmas[i].end / page_size();) {
            uint64_t count = fuzz_take(input, 1) % 16 + 1, what = fuzz_take(input, 1), entry = 0;
            for (size_t k = 0; k < sizeof(bits) / sizeof(bits[0]); k++)
                entry |= (what >> k & 1) != 0 ? bits[k] : 0;
            for (; count > 0 && p < vmas->vmas[i].end / page_size(); count--, p++) {
                entries[p] = entry;
                if ((what & 0x80) != 0 && pwrite(memory, "x", 1, (off_t)(p * page_size() + what)) != 1)
                    abort();
            }
        }
}

/* The result is the memory of a snapshot that can be opened. Registers must point into code and data. */
static void check_snapshot(const struct dump_vmas *found, const struct snapshot_parts *written,
                           struct arena *a)
{
    static int file = -1;
    const uint64_t page = page_size(), code = MAX_PAGES * page, data = code + 2 * page,
                   vdso = data + 2 * page;
    size_t count = found->vma_count;
    struct error error = {0};
    struct snapshot snapshot;
    struct snapshot_file files[] = {{.path = 0}, {.path = 0}};
    struct snapshot_parts parts = *written;
    if (file < 0)
        file = memfd_create("snapshot", MFD_CLOEXEC);
    parts.vmas = ARENA_ARRAY(a, count + 2, struct snapshot_vma);
    if (count > 0)
        memcpy(parts.vmas, found->vmas, count * sizeof(*parts.vmas));
    parts.vmas[count++] = (struct snapshot_vma){.start = code,
                                                .end = code + page,
                                                .prot = PROT_READ | PROT_EXEC,
                                                .flags = SNAPSHOT_VMA_FILE,
                                                .file = SNAPSHOT_FILE_AGENT};
    parts.vmas[count++] =
        (struct snapshot_vma){.start = data, .end = data + page, .prot = PROT_READ | PROT_WRITE};
    parts.vma_count = count;
    parts.extents = found->extents;
    parts.extent_count = found->extent_count;
    parts.files = files;
    parts.file_count = 2;
    parts.strings = "/lib/a";
    parts.strings_size = sizeof("/lib/a");
    parts.meta = "";
    parts.meta_size = 1;
    struct snapshot_header *h = &parts.header;
    h->vdso_count = 1;
    h->vdso[0] = (struct snapshot_vdso){vdso, vdso + page, "[vdso]"};
    h->thread.rip = code;
    h->thread.rsp = h->thread.fs_base = h->thread.tid_address = data;
    h->memory = (struct snapshot_memory){.start_code = code,
                                         .end_code = code + 1,
                                         .start_data = data,
                                         .end_data = data,
                                         .start_brk = data,
                                         .brk = data,
                                         .start_stack = data};
    if (file < 0 || ftruncate(file, 0) < 0)
        abort();
    fuzz_require(snapshot_write(file, &parts, &error) == 0);
    fuzz_require(snapshot_open(file, &snapshot, &error) == 0);
    snapshot_close(&snapshot);
}

/* The page table's entries, and the extents made of them, are ordered and belong to a VMA. */
void fuzz_pagemap(const uint8_t *data, size_t size)
{
    static int dir = -1, pagemap = -1, memory = -1;
    static uint64_t entries[MAX_PAGES];
    struct fuzz_input input = {data, size};
    struct arena arena = {0};
    struct error error = {0};
    struct dump_vmas vmas;
    if (dir < 0) {
        dir = fuzz_directory();
        pagemap = openat(dir, "pagemap", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        memory = memfd_create("memory", MFD_CLOEXEC);
    }
    take_vmas(&input, &arena, &vmas);
    take_pages(&input, &vmas, entries, memory);
    if (pwrite(pagemap, entries, sizeof(entries), 0) != sizeof(entries))
        abort();
    const struct tracee tracee = {.pid = 1, .proc = dir, .memory = memory};
    __attribute__((cleanup(dump_contents_close))) struct dump_contents contents = {0};
    int ret = dump_contents_open(&contents, NULL, &vmas, &arena, &error);
    if (ret == 0)
        ret = dump_vmas_scan(&tracee, &arena, &vmas, &contents, &error);
    fuzz_check_error(ret, &error);
    if (ret == 0) {
        check_vmas(&vmas);
        check_extents(&vmas);
        dump_vmas_join(&vmas, page_size(), vmas.vma_count > 0 ? vmas.vmas[0].end : 0);
        check_vmas(&vmas);
        check_extents(&vmas);
        struct snapshot_parts parts = {.vmas = vmas.vmas, .vma_count = vmas.vma_count};
        struct snapshot snapshot = {.vmas = vmas.vmas, .vma_count = vmas.vma_count};
        dump_writes_scan(pagemap, &arena, &parts);
        for (size_t i = 0; i < parts.write_count; i++)
            fuzz_require(snapshot_vma_at(&snapshot, parts.writes[i].address,
                                         parts.writes[i].pages * page_size()) != NULL);
        check_snapshot(&vmas, &parts, &arena);
    }
    arena_free(&arena);
}

/* The same text for each of the parsers. */
void fuzz_proc_dump(const uint8_t *data, size_t size)
{
    struct dump_descriptor descriptor;
    struct snapshot_memory memory = {0};
    struct snapshot_vdso vdso[SNAPSHOT_MAX_VDSO];
    unsigned long threads;
    bool pending;
    char *text = fuzz_text(data, size);
    (void)dump_text_descriptor(text, &descriptor);
    (void)dump_text_layout(text, &memory);
    (void)dump_text_own_pid(text);
    (void)dump_text_threads(text, &threads, &pending);
    size_t count = dump_text_vdso(text, vdso, SNAPSHOT_MAX_VDSO);
    fuzz_require(count <= SNAPSHOT_MAX_VDSO);
    for (size_t i = 0; i < count; i++)
        fuzz_require(vdso[i].name[0] == '[' && memchr(vdso[i].name, '\0', sizeof(vdso[i].name)) != NULL);
    free(text);
}
