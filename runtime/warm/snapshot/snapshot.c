/* Read and check the file of a snapshot (warm/snapshot/snapshot.h). Its content is trusted only as far as it
 * was checked here: order, bounds, alignment, indices. No file that the snapshot names is opened. */
#include "warm/snapshot/snapshot.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"

/* The size of header and tables of the largest plausible snapshot: some hundred thousand VMAs and extents. */
#define MAX_TABLES (64ULL << 20)

static int damaged(struct error *err, const char *what)
{
    return error_text(err, -EINVAL, "the snapshot is damaged: %s", what);
}

static bool aligned(uint64_t value, uint64_t page)
{
    return (value & (page - 1)) == 0;
}

/* Return whether the range consists of whole pages that a program can have. */
static bool is_range(uint64_t start, uint64_t end, uint64_t page)
{
    return start < end && start >= SNAPSHOT_LOWEST && end <= SNAPSHOT_HIGHEST && aligned(start, page) &&
           aligned(end, page);
}

const struct snapshot_vma *snapshot_vma_at(const struct snapshot *snapshot, uint64_t address, uint64_t size)
{
    size_t low = 0, high = snapshot->vma_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (snapshot->vmas[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == snapshot->vma_count || snapshot->vmas[low].start > address)
        return NULL;
    return size <= snapshot->vmas[low].end - address ? &snapshot->vmas[low] : NULL;
}

static int check_vmas(const struct snapshot *snapshot, uint64_t page, struct error *err)
{
    uint64_t last = 0;
    size_t stacks = 0;
    for (size_t i = 0; i < snapshot->vma_count; i++) {
        const struct snapshot_vma *a = &snapshot->vmas[i];
        if (!is_range(a->start, a->end, page) || a->start < last)
            return damaged(err, "order of the VMAs");
        last = a->end;
        if ((a->prot & ~(uint32_t)(PROT_READ | PROT_WRITE | PROT_EXEC)) != 0 ||
            ((a->prot & PROT_WRITE) != 0 && (a->prot & PROT_EXEC) != 0 &&
             ((a->flags & SNAPSHOT_VMA_FILE) != 0 || !snapshot_vma_is_copied(a))))
            return damaged(err, "protection of a VMA");
        bool file = (a->flags & SNAPSHOT_VMA_FILE) != 0, shared = (a->flags & SNAPSHOT_VMA_SHARED) != 0;
        bool stack = (a->flags & SNAPSHOT_VMA_STACK) != 0, empty = (a->flags & SNAPSHOT_VMA_EMPTY) != 0;
        bool guard = (a->flags & SNAPSHOT_VMA_GUARD) != 0;
        stacks += stack;
        if ((a->flags & ~(uint32_t)SNAPSHOT_VMA_FLAGS) != 0 || (file && (stack || empty)) ||
            (shared && (!file || (a->prot & PROT_WRITE) != 0)) || (stack && (empty || stacks > 1)) ||
            ((a->flags & SNAPSHOT_VMA_COPIED) != 0 && (file || empty || guard)) ||
            (guard && (stack || (a->flags & SNAPSHOT_VMA_DROPPABLE) != 0)))
            return damaged(err, "kind of a VMA");
        if (file && (!aligned(a->offset, page) || a->offset > INT64_MAX - (a->end - a->start) ||
                     (a->file >= snapshot->file_count && a->file != SNAPSHOT_FILE_AGENT)))
            return damaged(err, "file of a VMA");
    }
    return 0;
}

static int check_vdso(const struct snapshot *snapshot, uint64_t page, struct error *err)
{
    const struct snapshot_header *h = snapshot->header;
    if (h->vdso_count == 0 || h->vdso_count > SNAPSHOT_MAX_VDSO)
        return damaged(err, "number of the vdso and vvar areas");
    uint64_t last = 0;
    size_t code = 0;
    for (size_t i = 0; i < h->vdso_count; i++) {
        const struct snapshot_vdso *s = &h->vdso[i];
        if (!is_range(s->start, s->end, page) || s->start < last || s->name[sizeof(s->name) - 1] != '\0')
            return damaged(err, "order of the vdso and vvar areas");
        last = s->end;
        code += strcmp(s->name, "[vdso]") == 0;
        for (size_t k = 0; k < snapshot->vma_count; k++)
            if (snapshot->vmas[k].start < s->end && s->start < snapshot->vmas[k].end)
                return damaged(err, "a VMA overlaps the vdso and vvar areas");
    }
    return code == 1 ? 0 : damaged(err, "names of the vdso and vvar areas");
}

/* Return whether the pages are in the part of a file that has pages. */
static bool is_in_file(uint64_t offset, uint64_t pages, uint64_t first, uint64_t size, uint64_t page)
{
    return aligned(offset, page) && offset >= first && offset <= size && pages * page <= size - offset;
}

static int check_extents(const struct snapshot *snapshot, uint64_t page, struct error *err)
{
    const struct snapshot_header *h = snapshot->header;
    uint64_t last = 0;
    for (size_t i = 0; i < snapshot->extent_count; i++) {
        const struct snapshot_extent *r = &snapshot->extents[i];
        if (r->address < last || !aligned(r->address, page) || r->pages == 0 ||
            r->pages > SNAPSHOT_HIGHEST / page)
            return damaged(err, "order of the pages");
        const struct snapshot_vma *a = snapshot_vma_at(snapshot, r->address, r->pages * page);
        if (a == NULL || (a->flags & (SNAPSHOT_VMA_SHARED | SNAPSHOT_VMA_EMPTY | SNAPSHOT_VMA_GUARD)) != 0 ||
            ((a->prot & PROT_EXEC) != 0 && !snapshot_vma_is_copied(a)) ||
            (snapshot_vma_is_copied(a) && r->pages * page > SNAPSHOT_COPY_MAX))
            return damaged(err, "pages that belong to no VMA");
        const bool of_base = r->of_base != 0;
        if (r->of_base > 1 || (of_base && h->base.name[0] == '\0') ||
            !is_in_file(r->offset, r->pages, of_base ? sizeof(*h) : h->tables_size,
                        of_base ? h->base.size : h->size, page))
            return damaged(err, "position of pages in the file");
        last = r->address + r->pages * page;
    }
    return 0;
}

/* Patches are copied when the protection of all memory is set. */
static int check_patches(const struct snapshot *snapshot, uint64_t page, struct error *err)
{
    const uint32_t others = SNAPSHOT_VMA_SHARED | SNAPSHOT_VMA_EMPTY | SNAPSHOT_VMA_GUARD;
    const struct snapshot_header *h = snapshot->header;
    uint64_t last = 0;
    for (size_t i = 0; i < snapshot->patch_count; i++) {
        const struct snapshot_patch *p = &snapshot->patches[i];
        if (p->address < last || !aligned(p->address, page) || p->pages == 0 || p->pages > SNAPSHOT_PATCH_MAX)
            return damaged(err, "order of the patches");
        const struct snapshot_vma *a = snapshot_vma_at(snapshot, p->address, p->pages * page);
        if (a == NULL || (a->flags & others) != 0 || (a->prot & PROT_WRITE) == 0)
            return damaged(err, "patches that belong to no VMA");
        if (!is_in_file(p->offset, p->pages, h->tables_size, h->size, page))
            return damaged(err, "position of a patch in the file");
        last = p->address + p->pages * page;
    }
    return 0;
}

static int check_writes(const struct snapshot *snapshot, uint64_t page, struct error *err)
{
    uint64_t last = 0;
    for (size_t i = 0; i < snapshot->write_count; i++) {
        const struct snapshot_write *w = &snapshot->writes[i];
        if (w->address < last || !aligned(w->address, page) || w->pages == 0 ||
            w->pages > SNAPSHOT_HIGHEST / page ||
            snapshot_vma_at(snapshot, w->address, w->pages * page) == NULL)
            return damaged(err, "pages to write");
        last = w->address + w->pages * page;
    }
    return 0;
}

static int check_files(const struct snapshot *snapshot, struct error *err)
{
    uint64_t size = snapshot->header->strings.count;
    if (size == 0 || snapshot->strings[size - 1] != '\0')
        return damaged(err, "end of the strings");
    for (size_t i = 0; i < snapshot->file_count; i++)
        if (snapshot->files[i].path >= size || snapshot->strings[snapshot->files[i].path] != '/')
            return damaged(err, "name of a file");
    return 0;
}

static int check_descriptors(const struct snapshot *snapshot, struct error *err)
{
    const struct snapshot_header *h = snapshot->header;
    if (h->descriptor_count > SNAPSHOT_MAX_DESCRIPTORS)
        return damaged(err, "number of the descriptors");
    for (size_t i = 0; i < h->descriptor_count; i++) {
        const struct snapshot_descriptor *d = &h->descriptors[i];
        bool urandom = d->file == SNAPSHOT_FILE_URANDOM;
        if (d->fd < 3 || d->fd > SNAPSHOT_HIGHEST_DESCRIPTOR ||
            (d->file >= snapshot->file_count && !urandom) || d->position > INT64_MAX)
            return damaged(err, "a descriptor");
        for (size_t k = 0; k < i; k++)
            if (h->descriptors[k].fd == d->fd || (h->descriptors[k].file == d->file && !urandom))
                return damaged(err, "two descriptors");
    }
    return 0;
}

static bool holds(const struct snapshot *snapshot, uint64_t address, uint64_t size, uint32_t prot)
{
    const struct snapshot_vma *a = snapshot_vma_at(snapshot, address, size);
    return a != NULL && (a->prot & prot) == prot && (a->flags & SNAPSHOT_VMA_GUARD) == 0;
}

/* Check the addresses where the restorer, the kernel or the first instruction would access memory. */
static int check_thread(const struct snapshot *snapshot, struct error *err)
{
    const struct snapshot_thread *t = &snapshot->header->thread;
    const struct snapshot_memory *m = &snapshot->header->memory;
    const uint32_t both = PROT_READ | PROT_WRITE;
    if (!holds(snapshot, t->rip, 1, PROT_EXEC) || !holds(snapshot, t->rsp, sizeof(uint64_t), both) ||
        !holds(snapshot, t->fs_base, sizeof(uint64_t), both) ||
        !holds(snapshot, t->tid_address, sizeof(int), both) ||
        (t->rseq != 0 && !holds(snapshot, t->rseq, t->rseq_size, both)))
        return damaged(err, "registers");
    if (m->auxv_count > SNAPSHOT_MAX_AUXV || m->auxv_count % 2 != 0)
        return damaged(err, "auxiliary vector");
    /* The kernel's own conditions (validate_prctl_map_addr), checked before the old memory is gone. */
    const uint64_t addresses[] = {m->start_code, m->end_code, m->start_data, m->end_data,
                                  m->start_brk,  m->brk,      m->start_stack};
    for (size_t i = 0; i < sizeof(addresses) / sizeof(*addresses); i++)
        if (addresses[i] < SNAPSHOT_LOWEST || addresses[i] >= SNAPSHOT_HIGHEST)
            return damaged(err, "addresses of the program");
    if (m->start_code >= m->end_code || m->start_data > m->end_data || m->start_brk > m->brk)
        return damaged(err, "order of the program's addresses");
    return 0;
}

/* Return the address of a table; NULL if it is not inside the file. */
static const void *table(const struct snapshot *snapshot, const struct snapshot_table *t, size_t element)
{
    uint64_t size = snapshot->header->tables_size;
    if (t->offset < sizeof(struct snapshot_header) || t->offset % sizeof(uint64_t) != 0 || t->offset > size ||
        t->count > (size - t->offset) / element)
        return NULL;
    return (const char *)snapshot->map + t->offset;
}

static int check_tables(struct snapshot *snapshot, struct error *err)
{
    const struct snapshot_header *h = snapshot->header;
    snapshot->vmas = table(snapshot, &h->vmas, sizeof(*snapshot->vmas));
    snapshot->extents = table(snapshot, &h->extents, sizeof(*snapshot->extents));
    snapshot->patches = table(snapshot, &h->patches, sizeof(*snapshot->patches));
    snapshot->files = table(snapshot, &h->files, sizeof(*snapshot->files));
    snapshot->writes = table(snapshot, &h->writes, sizeof(*snapshot->writes));
    snapshot->strings = table(snapshot, &h->strings, 1);
    snapshot->meta = table(snapshot, &h->meta, 1);
    if (snapshot->vmas == NULL || snapshot->extents == NULL || snapshot->patches == NULL ||
        snapshot->files == NULL || snapshot->writes == NULL || snapshot->strings == NULL ||
        snapshot->meta == NULL)
        return damaged(err, "position of a table");
    snapshot->vma_count = h->vmas.count;
    snapshot->extent_count = h->extents.count;
    snapshot->patch_count = h->patches.count;
    snapshot->file_count = h->files.count;
    snapshot->write_count = h->writes.count;
    snapshot->meta_size = h->meta.count;
    int ret = check_vmas(snapshot, h->page_size, err);
    if (ret < 0)
        return ret;
    ret = check_vdso(snapshot, h->page_size, err);
    if (ret < 0)
        return ret;
    if (h->base.name[sizeof(h->base.name) - 1] != '\0')
        return damaged(err, "name of its base");
    ret = check_extents(snapshot, h->page_size, err);
    if (ret < 0)
        return ret;
    ret = check_patches(snapshot, h->page_size, err);
    if (ret < 0)
        return ret;
    ret = check_writes(snapshot, h->page_size, err);
    if (ret < 0)
        return ret;
    ret = check_files(snapshot, err);
    if (ret < 0)
        return ret;
    ret = check_descriptors(snapshot, err);
    if (ret < 0)
        return ret;
    return check_thread(snapshot, err);
}

uint64_t snapshot_checksum(const void *data, size_t size)
{
    struct snapshot_header header;
    memcpy(&header, data, sizeof(header));
    header.checksum = hash_bytes((const char *)data + sizeof(header), size - sizeof(header)).a;
    return hash_bytes(&header, sizeof(header)).a;
}

static int check_header(int fd, struct snapshot_header *header, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_set(err, -errno, "read the snapshot");
    ssize_t n = pread(fd, header, sizeof(*header), 0);
    if (n < 0)
        return error_set(err, -errno, "read the snapshot");
    if ((size_t)n != sizeof(*header) || header->magic != SNAPSHOT_MAGIC)
        return damaged(err, "it is not a snapshot");
    if (header->format != SNAPSHOT_VERSION)
        return error_text(err, -ENOTSUP, "the snapshot has format %u, this runtime reads %u", header->format,
                          SNAPSHOT_VERSION);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (header->page_size != page)
        return error_text(err, -ENOTSUP, "the snapshot is for pages of %u bytes", header->page_size);
    if (header->size > (uint64_t)st.st_size || header->tables_size < sizeof(*header) ||
        header->tables_size > header->size || header->tables_size > MAX_TABLES ||
        !aligned(header->tables_size, page))
        return damaged(err, "its size");
    return 0;
}

int snapshot_open(int fd, struct snapshot *out, struct error *err)
{
    *out = (struct snapshot){0};
    struct snapshot_header header;
    int ret = check_header(fd, &header, err);
    if (ret < 0)
        return ret;
    void *map = mmap(NULL, header.tables_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return error_set(err, -errno, "map the snapshot");
    *out = (struct snapshot){.map = map, .map_size = header.tables_size, .header = map};
    if (snapshot_checksum(map, header.tables_size) != header.checksum ||
        memcmp(map, &header, sizeof(header)) != 0)
        ret = damaged(err, "its checksum");
    if (ret == 0)
        ret = check_tables(out, err);
    if (ret < 0)
        snapshot_close(out);
    return ret;
}

void snapshot_close(struct snapshot *snapshot)
{
    if (snapshot->map != NULL)
        munmap(snapshot->map, snapshot->map_size);
    *snapshot = (struct snapshot){0};
}

int snapshot_as_base(int fd, const char *name, struct snapshot_base *out, struct error *err)
{
    struct snapshot_header header;
    struct stat st;
    int ret = check_header(fd, &header, err);
    if (ret == 0 && fstat(fd, &st) < 0)
        ret = error_set(err, -errno, "read the snapshot");
    if (ret < 0)
        return ret;
    *out = (struct snapshot_base){.checksum = header.checksum,
                                  .size = header.size,
                                  .inode = st.st_ino,
                                  .modified = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec};
    snprintf(out->name, sizeof(out->name), "%s", name);
    return 0;
}

int snapshot_check_base(const struct snapshot *snapshot, int fd, struct error *err)
{
    const struct snapshot_base *wanted = &snapshot->header->base;
    struct snapshot_base found = {0};
    struct error ignored = {0};
    if (snapshot_as_base(fd, "", &found, &ignored) == 0 && found.checksum == wanted->checksum &&
        found.size == wanted->size && found.inode == wanted->inode && found.modified == wanted->modified)
        return 0;
    return error_text(err, -ESTALE, "its base, snapshot '%s', was changed or replaced", wanted->name);
}

uint64_t snapshot_write_pages(const struct snapshot *snapshot)
{
    uint64_t pages = 0;
    for (size_t i = 0; i < snapshot->write_count; i++)
        pages += snapshot->writes[i].pages;
    return pages;
}
