/* Write header and tables of a snapshot (warm/snapshot/snapshot.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "warm/snapshot/snapshot.h"

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Place a table at *end, which moves on. */
static void place(struct snapshot_table *table, uint64_t *end, size_t count, size_t element)
{
    *table = (struct snapshot_table){.offset = *end, .count = count};
    *end = round_up(*end + count * element, sizeof(uint64_t));
}

static void put(char *buffer, const struct snapshot_table *table, const void *data, size_t element)
{
    if (table->count > 0)
        memcpy(buffer + table->offset, data, table->count * element);
}

static void lay_out(struct snapshot_parts *parts, uint64_t page)
{
    struct snapshot_header *h = &parts->header;
    uint64_t end = sizeof(*h);
    place(&h->vmas, &end, parts->vma_count, sizeof(*parts->vmas));
    place(&h->extents, &end, parts->extent_count, sizeof(*parts->extents));
    place(&h->patches, &end, parts->patch_count, sizeof(*parts->patches));
    place(&h->files, &end, parts->file_count, sizeof(*parts->files));
    place(&h->writes, &end, parts->write_count, sizeof(*parts->writes));
    place(&h->strings, &end, parts->strings_size, 1);
    place(&h->meta, &end, parts->meta_size, 1);
    h->tables_size = round_up(end, page);
    uint64_t offset = h->tables_size;
    for (size_t i = 0; i < parts->extent_count; i++) {
        if (parts->extents[i].of_base != 0)
            continue;
        parts->extents[i].offset = offset;
        offset += parts->extents[i].pages * page;
    }
    for (size_t i = 0; i < parts->patch_count; i++) {
        parts->patches[i].offset = offset;
        offset += parts->patches[i].pages * page;
    }
    h->size = offset;
}

int snapshot_write(int fd, struct snapshot_parts *parts, struct error *err)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct snapshot_header *h = &parts->header;
    h->magic = SNAPSHOT_MAGIC;
    h->format = SNAPSHOT_VERSION;
    h->page_size = (uint32_t)page;
    lay_out(parts, page);
    cleanup_free char *buffer = calloc(1, h->tables_size);
    if (buffer == NULL)
        return error_set(err, -ENOMEM, "write the snapshot");
    put(buffer, &h->vmas, parts->vmas, sizeof(*parts->vmas));
    put(buffer, &h->extents, parts->extents, sizeof(*parts->extents));
    put(buffer, &h->patches, parts->patches, sizeof(*parts->patches));
    put(buffer, &h->files, parts->files, sizeof(*parts->files));
    put(buffer, &h->writes, parts->writes, sizeof(*parts->writes));
    put(buffer, &h->strings, parts->strings, 1);
    put(buffer, &h->meta, parts->meta, 1);
    memcpy(buffer, h, sizeof(*h));
    h->checksum = snapshot_checksum(buffer, h->tables_size);
    memcpy(buffer, h, sizeof(*h));
    /* Memory that is reserved at once is written faster; a file system may not be able to. */
    (void)fallocate(fd, 0, 0, (off_t)h->size);
    if (ftruncate(fd, (off_t)h->size) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return error_set(err, -errno, "write the snapshot");
    int ret = io_write_full(fd, buffer, h->tables_size);
    return ret < 0 ? error_set(err, ret, "write the snapshot") : 0;
}
