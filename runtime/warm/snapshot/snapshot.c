/* Read and check the file of a snapshot (warm/snapshot/snapshot.h). What it says is believed only as far as
 * it was checked here: order, bounds, alignment, indices. Opens nothing that the image names. */
#include "warm/snapshot/snapshot.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"

/* Header and tables of the largest snapshot that makes sense: some hundred thousand areas and runs. */
#define MAX_TABLES (64ULL << 20)

static int damaged(struct error *err, const char *what)
{
    return error_text(err, -EINVAL, "the snapshot is damaged: %s", what);
}

static bool aligned(uint64_t value, uint64_t page)
{
    return (value & (page - 1)) == 0;
}

/* A range of whole pages that a program can have. */
static bool is_range(uint64_t start, uint64_t end, uint64_t page)
{
    return start < end && start >= IMAGE_LOWEST && end <= IMAGE_HIGHEST && aligned(start, page) &&
           aligned(end, page);
}

const struct image_area *image_area_at(const struct image *image, uint64_t address, uint64_t size)
{
    size_t low = 0, high = image->area_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (image->areas[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == image->area_count || image->areas[low].start > address)
        return NULL;
    return size <= image->areas[low].end - address ? &image->areas[low] : NULL;
}

static int check_areas(const struct image *image, uint64_t page, struct error *err)
{
    uint64_t last = 0;
    size_t stacks = 0;
    for (size_t i = 0; i < image->area_count; i++) {
        const struct image_area *a = &image->areas[i];
        if (!is_range(a->start, a->end, page) || a->start < last)
            return damaged(err, "order of the areas");
        last = a->end;
        if ((a->prot & ~(uint32_t)(PROT_READ | PROT_WRITE | PROT_EXEC)) != 0 ||
            ((a->prot & PROT_WRITE) != 0 && (a->prot & PROT_EXEC) != 0 && !image_area_is_copied(a)))
            return damaged(err, "protection of an area");
        bool file = (a->flags & IMAGE_AREA_FILE) != 0, shared = (a->flags & IMAGE_AREA_SHARED) != 0;
        bool stack = (a->flags & IMAGE_AREA_STACK) != 0, empty = (a->flags & IMAGE_AREA_EMPTY) != 0;
        bool guard = (a->flags & IMAGE_AREA_GUARD) != 0;
        stacks += stack;
        if ((a->flags & ~(uint32_t)IMAGE_AREA_FLAGS) != 0 || (file && (stack || empty)) ||
            (shared && (!file || (a->prot & PROT_WRITE) != 0)) || (stack && (empty || stacks > 1)) ||
            (guard && (stack || (a->flags & IMAGE_AREA_DROPPABLE) != 0)))
            return damaged(err, "kind of an area");
        if (file && (!aligned(a->offset, page) || a->offset > INT64_MAX - (a->end - a->start) ||
                     (a->file >= image->file_count && a->file != IMAGE_FILE_AGENT)))
            return damaged(err, "file of an area");
    }
    return 0;
}

static int check_special(const struct image *image, uint64_t page, struct error *err)
{
    const struct image_header *h = image->header;
    if (h->special_count == 0 || h->special_count > IMAGE_MAX_SPECIAL)
        return damaged(err, "number of the kernel's areas");
    uint64_t last = 0;
    size_t code = 0;
    for (size_t i = 0; i < h->special_count; i++) {
        const struct image_special *s = &h->special[i];
        if (!is_range(s->start, s->end, page) || s->start < last || s->name[sizeof(s->name) - 1] != '\0')
            return damaged(err, "order of the kernel's areas");
        last = s->end;
        code += strcmp(s->name, "[vdso]") == 0;
        for (size_t k = 0; k < image->area_count; k++)
            if (image->areas[k].start < s->end && s->start < image->areas[k].end)
                return damaged(err, "an area lies where the kernel's are");
    }
    return code == 1 ? 0 : damaged(err, "names of the kernel's areas");
}

static int check_runs(const struct image *image, uint64_t page, struct error *err)
{
    const struct image_header *h = image->header;
    uint64_t last = 0;
    for (size_t i = 0; i < image->run_count; i++) {
        const struct image_run *r = &image->runs[i];
        if (r->address < last || !aligned(r->address, page) || r->pages == 0 ||
            r->pages > IMAGE_HIGHEST / page)
            return damaged(err, "order of the pages");
        const struct image_area *a = image_area_at(image, r->address, r->pages * page);
        if (a == NULL || (a->flags & (IMAGE_AREA_SHARED | IMAGE_AREA_EMPTY | IMAGE_AREA_GUARD)) != 0 ||
            ((a->prot & PROT_EXEC) != 0 && !image_area_is_copied(a)) ||
            (image_area_is_copied(a) && r->pages * page > IMAGE_COPY_MAX))
            return damaged(err, "pages that belong to no area");
        if (!aligned(r->offset, page) || r->offset < h->tables_size || r->offset > h->size ||
            r->pages * page > h->size - r->offset)
            return damaged(err, "place of pages in the file");
        last = r->address + r->pages * page;
    }
    last = 0;
    for (size_t i = 0; i < image->write_count; i++) {
        const struct image_write *w = &image->writes[i];
        if (w->address < last || !aligned(w->address, page) || w->pages == 0 ||
            w->pages > IMAGE_HIGHEST / page || image_area_at(image, w->address, w->pages * page) == NULL)
            return damaged(err, "pages to be written");
        last = w->address + w->pages * page;
    }
    return 0;
}

static int check_files(const struct image *image, struct error *err)
{
    uint64_t size = image->header->strings.count;
    if (size == 0 || image->strings[size - 1] != '\0')
        return damaged(err, "end of the strings");
    for (size_t i = 0; i < image->file_count; i++)
        if (image->files[i].path >= size || image->strings[image->files[i].path] != '/')
            return damaged(err, "name of a file");
    return 0;
}

static int check_descriptors(const struct image *image, struct error *err)
{
    const struct image_header *h = image->header;
    if (h->descriptor_count > IMAGE_MAX_DESCRIPTORS)
        return damaged(err, "number of the descriptors");
    for (size_t i = 0; i < h->descriptor_count; i++) {
        const struct image_descriptor *d = &h->descriptors[i];
        bool urandom = d->file == IMAGE_FILE_URANDOM;
        if (d->fd < 3 || d->fd > IMAGE_HIGHEST_DESCRIPTOR || (d->file >= image->file_count && !urandom) ||
            d->position > INT64_MAX)
            return damaged(err, "a descriptor");
        for (size_t k = 0; k < i; k++)
            if (h->descriptors[k].fd == d->fd || (h->descriptors[k].file == d->file && !urandom))
                return damaged(err, "two descriptors");
    }
    return 0;
}

static bool holds(const struct image *image, uint64_t address, uint64_t size, uint32_t prot)
{
    const struct image_area *a = image_area_at(image, address, size);
    return a != NULL && (a->prot & prot) == prot && (a->flags & IMAGE_AREA_GUARD) == 0;
}

/* Where the restorer, the kernel or the first instruction would touch memory. */
static int check_thread(const struct image *image, struct error *err)
{
    const struct image_thread *t = &image->header->thread;
    const struct image_memory *m = &image->header->memory;
    const uint32_t both = PROT_READ | PROT_WRITE;
    if (!holds(image, t->rip, 1, PROT_EXEC) || !holds(image, t->rsp, sizeof(uint64_t), both) ||
        !holds(image, t->fs_base, sizeof(uint64_t), both) ||
        !holds(image, t->tid_address, sizeof(int), both) ||
        (t->rseq != 0 && !holds(image, t->rseq, t->rseq_size, both)))
        return damaged(err, "registers");
    if (m->auxv_count > IMAGE_MAX_AUXV || m->auxv_count % 2 != 0)
        return damaged(err, "auxiliary vector");
    /* The kernel's own conditions (validate_prctl_map_addr), known before the old memory is gone. */
    const uint64_t addresses[] = {m->start_code, m->end_code, m->start_data, m->end_data,
                                  m->start_brk,  m->brk,      m->start_stack};
    for (size_t i = 0; i < sizeof(addresses) / sizeof(*addresses); i++)
        if (addresses[i] < IMAGE_LOWEST || addresses[i] >= IMAGE_HIGHEST)
            return damaged(err, "addresses of the program");
    if (m->start_code >= m->end_code || m->start_data > m->end_data || m->start_brk > m->brk)
        return damaged(err, "order of the program's addresses");
    return 0;
}

/* A table's place; NULL when it does not lie in the file. */
static const void *table(const struct image *image, const struct image_table *t, size_t element)
{
    uint64_t size = image->header->tables_size;
    if (t->offset < sizeof(struct image_header) || t->offset % sizeof(uint64_t) != 0 || t->offset > size ||
        t->count > (size - t->offset) / element)
        return NULL;
    return (const char *)image->map + t->offset;
}

static int check_tables(struct image *image, struct error *err)
{
    const struct image_header *h = image->header;
    image->areas = table(image, &h->areas, sizeof(*image->areas));
    image->runs = table(image, &h->runs, sizeof(*image->runs));
    image->files = table(image, &h->files, sizeof(*image->files));
    image->writes = table(image, &h->writes, sizeof(*image->writes));
    image->strings = table(image, &h->strings, 1);
    image->meta = table(image, &h->meta, 1);
    if (image->areas == NULL || image->runs == NULL || image->files == NULL || image->writes == NULL ||
        image->strings == NULL || image->meta == NULL)
        return damaged(err, "place of a table");
    image->area_count = h->areas.count;
    image->run_count = h->runs.count;
    image->file_count = h->files.count;
    image->write_count = h->writes.count;
    image->meta_size = h->meta.count;
    int ret = check_areas(image, h->page_size, err);
    if (ret == 0)
        ret = check_special(image, h->page_size, err);
    if (ret == 0)
        ret = check_runs(image, h->page_size, err);
    if (ret == 0)
        ret = check_files(image, err);
    if (ret == 0)
        ret = check_descriptors(image, err);
    if (ret == 0)
        ret = check_thread(image, err);
    return ret;
}

uint64_t image_checksum(const void *data, size_t size)
{
    struct image_header header;
    memcpy(&header, data, sizeof(header));
    header.checksum = hash_bytes((const char *)data + sizeof(header), size - sizeof(header)).a;
    return hash_bytes(&header, sizeof(header)).a;
}

static int check_header(int fd, struct image_header *header, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_set(err, -errno, "read the snapshot");
    ssize_t n = pread(fd, header, sizeof(*header), 0);
    if (n < 0)
        return error_set(err, -errno, "read the snapshot");
    if ((size_t)n != sizeof(*header) || header->magic != IMAGE_MAGIC)
        return damaged(err, "it is no snapshot");
    if (header->format != IMAGE_VERSION)
        return error_text(err, -ENOTSUP, "the snapshot has format %u, this runtime reads %u", header->format,
                          IMAGE_VERSION);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (header->page_size != page)
        return error_text(err, -ENOTSUP, "the snapshot is for pages of %u bytes", header->page_size);
    if (header->size != (uint64_t)st.st_size || header->tables_size < sizeof(*header) ||
        header->tables_size > header->size || header->tables_size > MAX_TABLES ||
        !aligned(header->tables_size, page))
        return damaged(err, "its size");
    return 0;
}

int image_open(int fd, struct image *out, struct error *err)
{
    *out = (struct image){0};
    struct image_header header;
    int ret = check_header(fd, &header, err);
    if (ret < 0)
        return ret;
    void *map = mmap(NULL, header.tables_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return error_set(err, -errno, "map the snapshot");
    *out = (struct image){.map = map, .map_size = header.tables_size, .header = map};
    if (image_checksum(map, header.tables_size) != header.checksum ||
        memcmp(map, &header, sizeof(header)) != 0)
        ret = damaged(err, "its checksum");
    if (ret == 0)
        ret = check_tables(out, err);
    if (ret < 0)
        image_close(out);
    return ret;
}

void image_close(struct image *image)
{
    if (image->map != NULL)
        munmap(image->map, image->map_size);
    *image = (struct image){0};
}

uint64_t image_write_pages(const struct image *image)
{
    uint64_t pages = 0;
    for (size_t i = 0; i < image->write_count; i++)
        pages += image->writes[i].pages;
    return pages;
}
