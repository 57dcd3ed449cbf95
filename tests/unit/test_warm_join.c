/* The parts of an address space that become one mapping: a list of VMAs before and after, and the pages of
 * content. */
#include <sys/mman.h>

#include "unit.h"
#include "warm/dump/join.h"
#include "warm/dump/vmas.h"

#define PAGE 4096UL
#define MAX  8

#define HEAP_END 200

#define READ  PROT_READ
#define CODE  (PROT_READ | PROT_EXEC)
#define WRITE (PROT_READ | PROT_WRITE)
#define FILE_ SNAPSHOT_VMA_FILE

/* Addresses, offsets and sizes in pages. */
struct vma {
    uint64_t start, end;
    uint32_t prot, flags;
    uint64_t offset;
    uint32_t file;
};

struct extent {
    uint64_t address, pages;
};

static const struct {
    const char *name;
    struct vma before[MAX];
    struct extent content[MAX];
    struct vma after[MAX];
    struct extent content_after[MAX];
} cases[] = {
    {.name = "headers, code and constants of a library are one mapping of code",
     .before = {{10, 12, READ, FILE_, 0, 3}, {12, 20, CODE, FILE_, 2, 3}, {20, 25, READ, FILE_, 10, 3}},
     .after = {{10, 25, CODE, FILE_, 0, 3}}},
    {.name = "constants join the code even if relocated data follow",
     .before = {{12, 20, CODE, FILE_, 2, 3}, {20, 25, READ, FILE_, 10, 3}, {25, 27, READ, FILE_, 15, 3}},
     .content = {{25, 2}},
     .after = {{12, 25, CODE, FILE_, 2, 3}, {25, 27, READ}},
     .content_after = {{25, 2}}},
    {.name = "parts of a file with the same permissions are joined, as only the kernel's bookkeeping "
             "separates them",
     .before = {{10, 12, READ, FILE_, 0, 3}, {12, 20, READ, FILE_, 2, 3}},
     .after = {{10, 20, READ, FILE_, 0, 3}}},
    {.name = "two adjacent libraries are not joined",
     .before = {{10, 12, CODE, FILE_, 0, 3}, {12, 20, READ, FILE_, 2, 4}},
     .after = {{10, 12, CODE, FILE_, 0, 3}, {12, 20, READ, FILE_, 2, 4}}},
    {.name = "parts of a library that are not adjacent in the file are not joined",
     .before = {{10, 12, CODE, FILE_, 0, 3}, {12, 20, READ, FILE_, 3, 3}},
     .after = {{10, 12, CODE, FILE_, 0, 3}, {12, 20, READ, FILE_, 3, 3}}},
    {.name = "parts with a hole between them are not joined",
     .before = {{10, 12, CODE, FILE_, 0, 3}, {13, 20, READ, FILE_, 2, 3}},
     .after = {{10, 12, CODE, FILE_, 0, 3}, {13, 20, READ, FILE_, 2, 3}}},
    {.name = "mapped data files do not change",
     .before = {{10, 12, READ, FILE_, 0, 3}, {12, 20, PROT_NONE, FILE_, 2, 3}},
     .after = {{10, 12, READ, FILE_, 0, 3}, {12, 20, PROT_NONE, FILE_, 2, 3}}},
    {.name = "writable memory never becomes code",
     .before = {{10, 12, CODE, FILE_, 0, 3}, {12, 20, WRITE, FILE_, 2, 3}},
     .after = {{10, 12, CODE, FILE_, 0, 3}, {12, 20, WRITE, FILE_, 2, 3}}},
    {.name = "memory that was written to never becomes code: relocated constants",
     .before = {{10, 12, CODE, FILE_, 0, 3}, {12, 20, READ, FILE_, 2, 3}},
     .content = {{13, 2}},
     .after = {{10, 12, CODE, FILE_, 0, 3}, {12, 20, READ, FILE_, 2, 3}},
     .content_after = {{13, 2}}},
    {.name = "memory after it never becomes code",
     .before = {{10, 12, READ, FILE_, 0, 3}, {12, 20, CODE, FILE_, 2, 3}},
     .content = {{11, 1}},
     .after = {{10, 12, READ, FILE_, 0, 3}, {12, 20, CODE, FILE_, 2, 3}},
     .content_after = {{11, 1}}},
    {.name = "data that the snapshot contains completely, and the memory behind it, are one mapping",
     .before = {{10, 12, WRITE, FILE_, 5, 3}, {12, 20, WRITE}},
     .content = {{10, 2}, {12, 4}, {18, 1}},
     .after = {{10, 20, WRITE}},
     .content_after = {{10, 10}}},
    {.name = "a few zero pages before, between and behind pages of memory are stored with them",
     .before = {{10, 60, WRITE}},
     .content = {{20, 2}, {38, 1}, {45, 1}},
     .after = {{10, 60, WRITE}},
     .content_after = {{10, 50}}},
    {.name = "more zero pages are not",
     .before = {{10, 100, WRITE}},
     .content = {{27, 2}, {46, 1}},
     .after = {{10, 100, WRITE}},
     .content_after = {{27, 2}, {46, 1}}},
    {.name = "fewer of the heap, and none at its ends, which would remove its name",
     .before = {{180, 200, WRITE}},
     .content = {{182, 2}, {188, 1}, {194, 4}},
     .after = {{180, 200, WRITE}},
     .content_after = {{182, 7}, {194, 4}}},
    {.name = "the same for a stack, which is copied",
     .before = {{10, 40, WRITE, SNAPSHOT_VMA_STACK}},
     .content = {{12, 2}, {18, 1}, {24, 1}},
     .after = {{10, 40, WRITE, SNAPSHOT_VMA_STACK}},
     .content_after = {{12, 7}, {24, 1}}},
    {.name = "the same for a file, whose clean pages other processes share",
     .before = {{10, 40, WRITE, FILE_, 5, 3}},
     .content = {{12, 2}, {18, 1}, {24, 1}},
     .after = {{10, 40, WRITE, FILE_, 5, 3}},
     .content_after = {{12, 7}, {24, 1}}},
    {.name = "data that the file contains partly are mapped from it",
     .before = {{10, 12, WRITE, FILE_, 5, 3}, {12, 20, WRITE}},
     .content = {{11, 1}, {12, 4}},
     .after = {{10, 12, WRITE, FILE_, 5, 3}, {12, 20, WRITE}},
     .content_after = {{11, 1}, {12, 8}}},
    {.name = "constants and data of one library differ in their permissions",
     .before = {{10, 12, READ, FILE_, 5, 3}, {12, 14, WRITE, FILE_, 7, 3}},
     .content = {{10, 2}, {12, 2}},
     .after = {{10, 12, READ}, {12, 14, WRITE}},
     .content_after = {{10, 2}, {12, 2}}},
    {.name = "a stack is separate",
     .before = {{10, 12, WRITE}, {12, 14, WRITE, SNAPSHOT_VMA_STACK}},
     .content = {{10, 2}, {12, 2}},
     .after = {{10, 12, WRITE}, {12, 14, WRITE, SNAPSHOT_VMA_STACK}},
     .content_after = {{10, 2}, {12, 2}}},
    {.name = "memory with other properties is separate",
     .before = {{10, 12, WRITE}, {12, 14, WRITE, SNAPSHOT_VMA_DONTFORK}},
     .after = {{10, 12, WRITE}, {12, 14, WRITE, SNAPSHOT_VMA_DONTFORK}}},
};

static struct snapshot_vma vma_of(const struct vma *a)
{
    return (struct snapshot_vma){.start = a->start * PAGE,
                                 .end = a->end * PAGE,
                                 .prot = a->prot,
                                 .flags = a->flags,
                                 .offset = a->offset * PAGE,
                                 .file = a->file};
}

static size_t fill(const struct vma *from, const struct extent *content, struct snapshot_vma *vmas,
                   struct snapshot_extent *extents, size_t *extent_count)
{
    size_t count = 0;
    for (*extent_count = 0; *extent_count < MAX && content[*extent_count].pages > 0; ++*extent_count)
        extents[*extent_count] = (struct snapshot_extent){.address = content[*extent_count].address * PAGE,
                                                          .pages = content[*extent_count].pages};
    for (; count < MAX && from[count].end > 0; count++)
        vmas[count] = vma_of(&from[count]);
    return count;
}

int main(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct snapshot_vma vmas[MAX], expected[MAX];
        struct snapshot_extent extents[MAX], expected_extents[MAX];
        struct dump_vmas got = {.vmas = vmas, .extents = extents};
        size_t extent_count;
        got.vma_count = fill(cases[i].before, cases[i].content, vmas, extents, &got.extent_count);
        size_t count =
            fill(cases[i].after, cases[i].content_after, expected, expected_extents, &extent_count);
        dump_vmas_join(&got, PAGE, HEAP_END * PAGE);
        ok(got.vma_count == count && memcmp(vmas, expected, count * sizeof(*vmas)) == 0, "%s", cases[i].name);
        ok(got.extent_count == extent_count &&
               memcmp(extents, expected_extents, extent_count * sizeof(*extents)) == 0,
           "and its pages: %s", cases[i].name);
    }
    return done_testing();
}
