/* The address space of a stopped process: what must be mapped again, and the pages that must be saved. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "warm/snapshot/snapshot.h"

struct arena;
struct dump_contents;
struct dump_vma_line;
struct error;
struct tracee;

/* In place of a file, for a private VMA of a file that the container lacks. From here on it is an anonymous
 * VMA of which every page counts. The pages of the snapshot that a process was restored from are such
 * VMAs. */
#define DUMP_BY_CONTENT 0xfffffffeU

/* A mapped file as /proc/PID/maps describes it. Two files may have one name (warm/dump/place.h). */
struct dump_file {
    const char *name;
    unsigned major, minor;
    uint64_t inode;
};

/* Memory that is mapped from the base (struct dump_base): a page is at its address plus `shift` there. */
struct dump_base_range {
    uint64_t start, end, shift;
};

struct dump_vmas {
    struct snapshot_vma *vmas;
    struct snapshot_vdso vdso[SNAPSHOT_MAX_VDSO];
    struct dump_file *files; /* each once; snapshot_vma.file is the index */
    struct snapshot_extent *extents;
    struct dump_base_range *based; /* in the order of their addresses */
    size_t vma_count, vdso_count, file_count, extent_count, based_count;
    uint64_t stack_used; /* what is below it in a stack has no content; 0: unknown */
};

/* Read /proc/PID/smaps. -ENOTSUP names a VMA that cannot be mapped again. VMAs of `agent_path` get
 * SNAPSHOT_FILE_AGENT; a second file with this name is refused. */
int dump_vmas_read(const struct tracee *t, struct arena *a, const char *agent_path, struct dump_vmas *out,
                   struct error *err);

/* Parse the text of that file, which is changed; `pid` is for messages. */
int dump_vmas_parse(char *text, pid_t pid, struct arena *a, const char *agent_path, struct dump_vmas *out,
                    struct error *err);

/* Return whether the line is one of the file. */
bool dump_vmas_is_of(const struct dump_vma_line *line, const struct dump_file *file);

/* Save a VMA of the file `name` by its content. -ENOTSUP: it is code, or shared. */
int dump_vmas_take_content(struct snapshot_vma *vma, const char *name, struct error *err);

/* Find the pages that the process has for itself (pagemap), and the pages of VMAs that are saved by their
 * content, and fill in `extents`. Untouched pages and pages of files do not count. Guard pages
 * (MADV_GUARD_INSTALL) become separate VMAs. A page of code that was written to is -ENOTSUP. `contents` keeps
 * the pages that are read. */
int dump_vmas_scan(const struct tracee *t, struct arena *a, struct dump_vmas *vmas,
                   struct dump_contents *contents, struct error *err);

/* Compare `size` bytes, a multiple of 64, of aligned pages. The C library's memcmp(3) compares byte by byte.
 */
static inline bool dump_vmas_equal(const void *one, const void *other, uint64_t size)
{
    const uint64_t *a = one, *b = other;
    for (const uint64_t *end = a + size / sizeof(*a); a < end; a += 8, b += 8)
        if (((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]) | (a[4] ^ b[4]) | (a[5] ^ b[5]) |
             (a[6] ^ b[6]) | (a[7] ^ b[7])) != 0)
            return false;
    return true;
}
