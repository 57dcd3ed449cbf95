/* warm/snapshot/snapshot.h: a written snapshot can be read, and any damage is an error. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "unit.h"
#include "warm/snapshot/snapshot.h"

#define CODE  0x400000ULL
#define DATA  0x500000ULL
#define HEAP  0x600000ULL
#define STACK 0x7ffd00000000ULL
#define VVAR  0x7ffe00000000ULL
#define VDSO  0x7ffe00004000ULL

static uint64_t page;

static struct snapshot_vma vmas[4];
static struct snapshot_extent extents[2];
static struct snapshot_write writes[1];
static struct snapshot_file files[2];
static const char strings[] = "/bin/one\0/lib/two";

/* A small valid snapshot. */
static struct snapshot_parts make_parts(void)
{
    const uint32_t both = PROT_READ | PROT_WRITE;
    vmas[0] = (struct snapshot_vma){.start = CODE,
                                    .end = CODE + 4 * page,
                                    .prot = PROT_READ | PROT_EXEC,
                                    .flags = SNAPSHOT_VMA_FILE,
                                    .file = SNAPSHOT_FILE_AGENT};
    vmas[1] = (struct snapshot_vma){.start = DATA,
                                    .end = DATA + 4 * page,
                                    .offset = 8 * page,
                                    .prot = both,
                                    .flags = SNAPSHOT_VMA_FILE,
                                    .file = 1};
    vmas[2] = (struct snapshot_vma){.start = HEAP, .end = HEAP + 16 * page, .prot = both};
    vmas[3] = (struct snapshot_vma){
        .start = STACK, .end = STACK + 8 * page, .prot = both, .flags = SNAPSHOT_VMA_STACK};
    extents[0] = (struct snapshot_extent){.address = HEAP + page, .pages = 2};
    extents[1] = (struct snapshot_extent){.address = STACK + 7 * page, .pages = 1};
    files[0].path = 0;
    files[1].path = sizeof("/bin/one");
    writes[0] = (struct snapshot_write){.address = HEAP, .pages = 3};
    struct snapshot_parts parts = {.vmas = vmas,
                                   .extents = extents,
                                   .files = files,
                                   .writes = writes,
                                   .strings = strings,
                                   .meta = "meta",
                                   .vma_count = 4,
                                   .extent_count = 2,
                                   .file_count = 2,
                                   .write_count = 1,
                                   .strings_size = sizeof(strings),
                                   .meta_size = 4};
    struct snapshot_header *h = &parts.header;
    h->descriptor_count = 1;
    h->descriptors[0] = (struct snapshot_descriptor){.fd = 3, .file = 1, .position = 100};
    h->vdso_count = 2;
    h->vdso[0] = (struct snapshot_vdso){VVAR, VDSO, "[vvar]"};
    h->vdso[1] = (struct snapshot_vdso){VDSO, VDSO + 2 * page, "[vdso]"};
    h->thread.rip = CODE + 10;
    h->thread.rsp = STACK + 7 * page + 64;
    h->thread.fs_base = HEAP + page;
    h->thread.tid_address = HEAP + page + 720;
    h->memory = (struct snapshot_memory){.start_code = CODE,
                                         .end_code = CODE + 4 * page,
                                         .start_data = DATA,
                                         .end_data = DATA + page,
                                         .start_brk = HEAP,
                                         .brk = HEAP + 16 * page,
                                         .start_stack = STACK + 7 * page,
                                         .auxv_count = 2};
    return parts;
}

static int open_parts(struct snapshot_parts *parts, struct snapshot *snapshot, struct error *err)
{
    cleanup_fd int fd = memfd_create("snapshot", MFD_CLOEXEC);
    if (fd < 0 || snapshot_write(fd, parts, err) < 0)
        bail_out("write a snapshot");
    return snapshot_open(fd, snapshot, err);
}

static void test_reading(void)
{
    struct snapshot snapshot = {0};
    struct error err = {0};
    struct snapshot_parts parts = make_parts();
    if (!is_int(open_parts(&parts, &snapshot, &err), 0, "a snapshot is read")) {
        diag("%s", err.text);
        return;
    }
    is_int(snapshot.vma_count, 4, "VMAs");
    is_int(snapshot.extent_count, 2, "extents");
    is_str(snapshot_path(&snapshot, &snapshot.files[1]), "/lib/two", "a file's path");
    ok(snapshot.meta_size == 4 && memcmp(snapshot.meta, "meta", 4) == 0, "meta data");
    ok(snapshot.extents[0].offset % page == 0 &&
           snapshot.extents[1].offset == snapshot.extents[0].offset + 2 * page,
       "pages are aligned and follow each other");
    ok(snapshot_vma_at(&snapshot, HEAP + 5, 10) == &snapshot.vmas[2], "an address belongs to a VMA");
    ok(snapshot_vma_at(&snapshot, HEAP - 1, 1) == NULL, "an address belongs to no VMA");
    ok(snapshot_vma_at(&snapshot, HEAP, 17 * page) == NULL, "a range is longer than its VMA");
    ok(snapshot_vma_at(&snapshot, STACK + 8 * page, 1) == NULL,
       "the end of the last VMA does not belong to it");
    snapshot_close(&snapshot);
}

/* A snapshot whose first extent is in another one, with a page of its own over it. */
static void with_base(struct snapshot_parts *p)
{
    static struct snapshot_patch patches[1];
    patches[0] = (struct snapshot_patch){.address = HEAP + 2 * page, .pages = 1};
    p->patches = patches;
    p->patch_count = 1;
    p->extents[0].of_base = 1;
    p->extents[0].offset = 4 * page;
    p->header.base = (struct snapshot_base){.name = "base", .size = 6 * page};
}

/* Expect an error for parts with an invalid property, which are written with a correct checksum. */
static void refused(struct snapshot_parts *parts, const char *name, const char *said)
{
    struct snapshot snapshot = {0};
    struct error err = {0};
    char text[128];
    is_int(open_parts(parts, &snapshot, &err), -EINVAL, "refused: %s", name);
    snprintf(text, sizeof(text), "the snapshot is damaged: %s", said);
    is_str(err.text, text, "and said so");
}

#define REFUSED(name, said, ...)                                                                             \
    do {                                                                                                     \
        struct snapshot_parts parts = make_parts(), *p = &parts;                                             \
        __VA_ARGS__;                                                                                         \
        refused(p, name, said);                                                                              \
    } while (0)

static void test_faults(void)
{
    REFUSED("VMAs that overlap", "order of the VMAs", p->vmas[1].start = CODE + page);
    REFUSED("a VMA that is not whole pages", "order of the VMAs", p->vmas[2].end -= 1);
    REFUSED("a VMA of the kernel", "order of the VMAs", p->vmas[3].end = 0x800000000000ULL);
    REFUSED("a VMA at 0", "order of the VMAs", p->vmas[0].start = 0);
    REFUSED("writable code", "protection of a VMA", p->vmas[0].prot |= PROT_WRITE);
    REFUSED("an unknown kind", "kind of a VMA", p->vmas[2].flags = 1U << 30);
    REFUSED("a stack that is a file", "kind of a VMA", p->vmas[1].flags |= SNAPSHOT_VMA_STACK);
    REFUSED("an inaccessible stack", "kind of a VMA", p->vmas[3].flags |= SNAPSHOT_VMA_GUARD);
    REFUSED("a file that is not in the table", "file of a VMA", p->vmas[1].file = 2);
    REFUSED("pages outside of VMAs", "pages that belong to no VMA", p->extents[0].address = HEAP + 15 * page);
    REFUSED("pages of code", "pages that belong to no VMA", p->extents[0].address = CODE);
    REFUSED("inaccessible pages", "pages that belong to no VMA", p->vmas[2].flags |= SNAPSHOT_VMA_GUARD);
    REFUSED("pages without end", "order of the pages", p->extents[0].pages = UINT64_MAX / page);
    REFUSED("pages of a base that is not named", "position of pages in the file", with_base(p);
            p->header.base.name[0] = '\0');
    REFUSED("a name of a base without end", "name of its base", with_base(p);
            memset(p->header.base.name, 'a', sizeof(p->header.base.name)));
    REFUSED("pages beyond the end of the base", "position of pages in the file", with_base(p);
            p->extents[0].offset = 5 * page);
    REFUSED("the header of the base", "position of pages in the file", with_base(p);
            p->extents[0].offset = 0);
    REFUSED("a second base", "position of pages in the file", with_base(p); p->extents[0].of_base = 2);
    REFUSED("a patch outside of VMAs", "patches that belong to no VMA", with_base(p);
            p->patches[0].address = HEAP + 16 * page);
    REFUSED("a patch of code", "patches that belong to no VMA", with_base(p); p->patches[0].address = CODE);
    REFUSED("a patch without end", "order of the patches", with_base(p);
            p->patches[0].pages = SNAPSHOT_PATCH_MAX + 1);
    REFUSED("pages to be written without end", "pages to write", p->writes[0].pages = UINT64_MAX / page);
    REFUSED("a relative path", "name of a file", p->files[0].path = 1);
    REFUSED("a path outside of the strings", "name of a file", p->files[0].path = 1 << 20);
    REFUSED("strings without an end", "end of the strings", p->strings_size--);
    REFUSED("a standard stream", "a descriptor", p->header.descriptors[0].fd = 2);
    REFUSED("a descriptor of no file", "a descriptor", p->header.descriptors[0].file = 2);
    REFUSED("a descriptor twice", "two descriptors",
            p->header.descriptors[1] = (struct snapshot_descriptor){.fd = 3, .file = 0};
            p->header.descriptor_count = 2);
    REFUSED("too many descriptors", "number of the descriptors",
            p->header.descriptor_count = SNAPSHOT_MAX_DESCRIPTORS + 1);
    REFUSED("no vdso", "names of the vdso and vvar areas", p->header.vdso_count = 1);
    REFUSED("a stack at the kernel's VMAs", "a VMA overlaps the vdso and vvar areas",
            p->header.vdso[0].start = STACK);
    REFUSED("too many of the kernel's areas", "number of the vdso and vvar areas",
            p->header.vdso_count = 100);
    REFUSED("a program counter in data", "registers", p->header.thread.rip = HEAP);
    REFUSED("an inaccessible thread area", "registers", p->vmas[2].flags |= SNAPSHOT_VMA_GUARD;
            p->extent_count = 0);
    REFUSED("a thread number across an end", "registers",
            p->header.thread.tid_address = HEAP + 16 * page - 2);
    REFUSED("a large auxiliary vector", "auxiliary vector", p->header.memory.auxv_count = 1000);
    REFUSED("a heap that ends before it begins", "order of the program's addresses",
            p->header.memory.brk = HEAP - 1);
}

static void test_base(void)
{
    struct snapshot snapshot = {0};
    struct error err = {0};
    struct snapshot_parts parts = make_parts();
    cleanup_fd int base = memfd_create("base", MFD_CLOEXEC);
    if (base < 0 || snapshot_write(base, &parts, &err) < 0)
        bail_out("write a snapshot");
    const uint64_t offset = parts.extents[0].offset;
    parts = make_parts();
    with_base(&parts);
    parts.extents[0].offset = offset;
    is_int(snapshot_as_base(base, "base", &parts.header.base, &err), 0, "a snapshot is described as a base");
    if (!is_int(open_parts(&parts, &snapshot, &err), 0, "a snapshot that has a base is read"))
        return;
    ok(snapshot.header->size == snapshot.map_size + 2 * page &&
           snapshot.patches[0].offset == snapshot.extents[1].offset + page,
       "it has its own pages, then those of patches, and no others");
    is_int(snapshot_check_base(&snapshot, base, &err), 0, "the base is the same");
    const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    if (futimens(base, times) < 0)
        bail_out("change the time of a file");
    is_int(snapshot_check_base(&snapshot, base, &err), -ESTALE, "a base that was changed is refused");
    is_str(err.text, "its base, snapshot 'base', was changed or replaced", "and named");
    snapshot_close(&snapshot);
}

static void write_all(int fd, const char *data, size_t size)
{
    if (ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        bail_out("write a snapshot");
}

/* Write a part of a snapshot again. The rest of the file remains. */
static void write_part(int fd, const char *data, size_t offset, size_t size)
{
    if (pwrite(fd, data + offset, size, (off_t)offset) != (ssize_t)size)
        bail_out("write a part of a snapshot");
}

/* Any flipped bit of header and tables without a matching checksum, and any length. */
static void test_damage(void)
{
    struct error err = {0};
    struct snapshot snapshot = {0};
    struct snapshot_parts parts = make_parts();
    cleanup_fd int fd = memfd_create("snapshot", MFD_CLOEXEC);
    if (fd < 0 || snapshot_write(fd, &parts, &err) < 0)
        bail_out("write a snapshot");
    size_t size = parts.header.size, used = parts.header.meta.offset + parts.meta_size;
    char *data = calloc(1, size);
    if (data == NULL || pread(fd, data, size, 0) != (ssize_t)size)
        bail_out("read a snapshot");
    size_t accepted = 0;
    for (size_t bit = 0; bit < used * 8; bit++) {
        data[bit / 8] ^= (char)(1 << bit % 8);
        write_part(fd, data, bit / 8, 1);
        if (snapshot_open(fd, &snapshot, &err) == 0) {
            accepted++;
            snapshot_close(&snapshot);
        }
        data[bit / 8] ^= (char)(1 << bit % 8);
        write_part(fd, data, bit / 8, 1);
    }
    is_int(accepted, 0, "no flipped bit of %zu is accepted", used * 8);
    accepted = 0;
    for (size_t length = 0; length < size; length += length < used ? 7 : page / 2) {
        write_all(fd, data, length);
        if (snapshot_open(fd, &snapshot, &err) == 0) {
            accepted++;
            snapshot_close(&snapshot);
        }
    }
    is_int(accepted, 0, "no shorter file is accepted");
    write_all(fd, data, size);
    if (pwrite(fd, "more", 4, (off_t)size) != 4)
        bail_out("write behind a snapshot");
    is_int(snapshot_open(fd, &snapshot, &err), 0, "the caller's data behind a snapshot is not part of it");
    snapshot_close(&snapshot);
    free(data);
}

/* The same with a matching checksum. The snapshot may be accepted or refused, but an accepted one can be
 * walked. */
static void test_plausible_damage(void)
{
    struct snapshot snapshot = {0};
    struct error err = {0};
    struct snapshot_parts parts = make_parts();
    cleanup_fd int fd = memfd_create("snapshot", MFD_CLOEXEC);
    if (fd < 0 || snapshot_write(fd, &parts, &err) < 0)
        bail_out("write a snapshot");
    size_t size = parts.header.tables_size, refused = 0, accepted = 0;
    size_t whole = parts.header.size;
    char *data = calloc(1, whole);
    if (data == NULL || pread(fd, data, whole, 0) != (ssize_t)whole)
        bail_out("read a snapshot");
    for (size_t bit = 0; bit < (parts.header.meta.offset + parts.meta_size) * 8; bit++) {
        data[bit / 8] ^= (char)(1 << bit % 8);
        struct snapshot_header *h = (struct snapshot_header *)(void *)data;
        h->checksum = snapshot_checksum(data, size);
        write_part(fd, data, 0, size);
        if (snapshot_open(fd, &snapshot, &err) == 0) {
            for (size_t i = 0; i < snapshot.file_count; i++)
                accepted += strlen(snapshot_path(&snapshot, &snapshot.files[i])) < size;
            snapshot_close(&snapshot);
        } else {
            refused++;
        }
        data[bit / 8] ^= (char)(1 << bit % 8);
    }
    ok(refused > 1000, "many flipped bits are found without the checksum");
    ok(accepted > 1000, "an accepted snapshot can be read");
    free(data);
}

static void test_host(void)
{
    struct snapshot_host here, other;
    snapshot_host_now(&here);
    snapshot_host_now(&other);
    ok(snapshot_host_difference(&here, &other) == NULL, "a machine equals itself");
    ok(here.release[0] != '\0' && here.vdso != 0 && here.cpu != 0, "it has an identity");
    other.cpu++;
    is_str(snapshot_host_difference(&here, &other), "on another CPU", "another CPU differs");
    other = here;
    other.vdso++;
    is_str(snapshot_host_difference(&here, &other), "on another vdso", "another vdso differs");
    other = here;
    other.version[0]++;
    is_str(snapshot_host_difference(&here, &other), "on another kernel", "another kernel differs");
    other = here;
    other.agent[0]++;
    is_str(snapshot_host_difference(&here, &other), "by another build of the runtime",
           "another agent differs");
}

int main(void)
{
    page = (uint64_t)sysconf(_SC_PAGESIZE);
    test_reading();
    test_faults();
    test_base();
    test_damage();
    test_plausible_damage();
    test_host();
    return done_testing();
}
