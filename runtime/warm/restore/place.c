/* Find a place for restorer, arguments and stack in the address space (warm/restore/place.h). No file is
 * read: the kernel itself reports whether the running program has something there (MAP_FIXED_NOREPLACE, Linux
 * 4.17). */
#include "warm/restore/place.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "warm/restore/restorer/work.h"
#include "warm/snapshot/snapshot.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* The number of addresses to try, from the middle of the largest gap upwards. */
#define TRIES 64
#define STEP  (1ULL << 30)

/* The distance that the kernel keeps free below a stack (stack_guard_gap). */
#define STACK_GUARD (1ULL << 20)
/* Enough for any recursion if there is no limit. */
#define STACK_MOST (8ULL << 30)

/* Return the end of the last part of the snapshot below `address`, or the lowest address. */
static uint64_t end_below(const struct snapshot *snapshot, uint64_t address)
{
    uint64_t end = SNAPSHOT_LOWEST;
    for (size_t i = 0; i < snapshot->vma_count && snapshot->vmas[i].end <= address; i++)
        end = snapshot->vmas[i].end;
    const struct snapshot_header *h = snapshot->header;
    for (size_t i = 0; i < h->vdso_count && h->vdso[i].end <= address; i++)
        if (h->vdso[i].end > end)
            end = h->vdso[i].end;
    return end;
}

/* Return the middle of the largest gap between the snapshot's VMAs: far from its heap, which grows upwards,
 * and from the addresses where the kernel places mappings. */
static uint64_t find_gap(const struct snapshot *snapshot, uint64_t *size)
{
    uint64_t middle = 0;
    *size = 0;
    for (size_t i = 0; i <= snapshot->vma_count; i++) {
        uint64_t end = i < snapshot->vma_count ? snapshot->vmas[i].start : SNAPSHOT_HIGHEST;
        uint64_t start = end_below(snapshot, end);
        if (end - start > *size) {
            *size = end - start;
            middle = start + *size / 2;
        }
    }
    return middle & ~(STEP - 1);
}

/* Map executable memory from a file, because SELinux forbids making other memory executable (execmem). */
static int map_code(uint64_t address, uint64_t size)
{
    /* A write beyond the limit is a signal (SIGXFSZ) that ends the process. */
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < restorer_size())
        return -EFBIG;
    cleanup_fd int fd = memfd_create("restorer", MFD_CLOEXEC | MFD_EXEC);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("restorer", MFD_CLOEXEC); /* MFD_EXEC exists since Linux 6.3 */
    if (fd < 0)
        return -errno;
    int ret = io_write_full(fd, restorer_start, restorer_size());
    if (ret < 0)
        return ret;
    void *put = mmap((void *)address, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0);
    return put == MAP_FAILED ? -errno : 0;
}

/* Reserve the whole range, inaccessible at first. */
static int reserve(uint64_t address, uint64_t size)
{
    void *got = mmap((void *)address, size, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    return got == MAP_FAILED ? -errno : 0;
}

static uint64_t total(const struct restore_place *place)
{
    return place->code_size + place->data_size + place->strings_size + place->parking_size;
}

static void set_addresses(struct restore_place *place, uint64_t start)
{
    place->code = start;
    place->data = place->code + place->code_size;
    place->strings = place->data + place->data_size;
    place->parking = place->strings + place->strings_size;
}

int restore_place_make(const struct snapshot *snapshot, struct restore_place *place, struct error *err)
{
    uint64_t page = snapshot->header->page_size;
    place->code_size = (restorer_size() + page - 1) & ~(page - 1);
    uint64_t gap, size = total(place), address = find_gap(snapshot, &gap);
    if (gap / 2 < size + (TRIES + 1) * STEP)
        return error_text(err, -ENOTSUP, "the snapshot leaves no room for the restorer");
    int ret = reserve(address, size);
    for (int i = 1; ret == -EEXIST && i < TRIES; i++)
        ret = reserve(address += STEP, size);
    if (ret < 0)
        return error_set(err, ret, "make room for the restorer");
    set_addresses(place, address);
    ret = map_code(place->code, place->code_size);
    if (ret == 0 &&
        mprotect((void *)place->data, place->data_size + place->strings_size, PROT_READ | PROT_WRITE) < 0)
        ret = -errno;
    if (ret < 0) {
        restore_place_unmake(place);
        return error_set(err, ret, "map the restorer");
    }
    return 0;
}

void restore_place_unmake(const struct restore_place *place)
{
    munmap((void *)place->code, total(place));
}

uint64_t restore_place_stack(const struct snapshot *snapshot, const struct snapshot_vma *stack)
{
    struct rlimit limit;
    uint64_t page = snapshot->header->page_size, size = STACK_MOST;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < size)
        size = limit.rlim_cur & ~(page - 1);
    uint64_t lowest = end_below(snapshot, stack->start) + STACK_GUARD;
    uint64_t start = size < stack->end ? stack->end - size : 0;
    if (start < lowest)
        start = lowest;
    return start < stack->start ? start : stack->start;
}
