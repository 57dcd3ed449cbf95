/* The file of a snapshot: header, tables, pages. Every position in the file or in memory is checked when the
 * file is opened, so a damaged file causes an error and nothing worse.
 *
 *     header | VMAs | extents | patches | files | writes | strings | meta | … to a page | pages of both
 *
 * Numbers have the format of the machine that wrote the file, because no other machine can use it. The file
 * may have further data at its end, which is the caller's: a saved session has its files there.
 *
 * Extents may be in another snapshot, the base. The file of a session then has only the pages that differ. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include "warm/file_identity.h"

struct error;

#define SNAPSHOT_MAGIC   0x31534e4158425359ULL
#define SNAPSHOT_VERSION 10

/* The lowest and highest addresses that a program can have: the default of vm.mmap_min_addr, and the end of
 * 47 bits less the page that the kernel keeps for itself (Documentation/arch/x86/x86_64/mm.rst). */
#define SNAPSHOT_LOWEST  0x10000ULL
#define SNAPSHOT_HIGHEST 0x7ffffffff000ULL

/* Properties of a VMA besides its protection. */
enum snapshot_vma_flag {
    SNAPSHOT_VMA_FILE = 1 << 0,      /* of a file; anonymous otherwise */
    SNAPSHOT_VMA_SHARED = 1 << 1,    /* MAP_SHARED of a file, never writable */
    SNAPSHOT_VMA_STACK = 1 << 2,     /* grows down */
    SNAPSHOT_VMA_DROPPABLE = 1 << 3, /* MAP_DROPPABLE (Linux 6.11) */
    SNAPSHOT_VMA_NORESERVE = 1 << 4,
    /* Flags from madvise(2). VMAs that are wiped in a child of fork(2) contain data that must not exist
     * twice, such as the state of a random number generator. They are restored empty. */
    SNAPSHOT_VMA_WIPEONFORK = 1 << 5,
    SNAPSHOT_VMA_DONTFORK = 1 << 6,
    SNAPSHOT_VMA_DONTDUMP = 1 << 7,
    SNAPSHOT_VMA_HUGEPAGE = 1 << 8,
    SNAPSHOT_VMA_NOHUGEPAGE = 1 << 9,
    SNAPSHOT_VMA_MERGEABLE = 1 << 10,
    SNAPSHOT_VMA_GUARD = 1 << 11,  /* MADV_GUARD_INSTALL (Linux 6.13): an access causes SIGSEGV */
    SNAPSHOT_VMA_COPIED = 1 << 12, /* the content is copied to anonymous memory (dump/copied.h) */
    SNAPSHOT_VMA_FLAGS = (1 << 13) - 1,
};

/* The content is not part of the snapshot. */
#define SNAPSHOT_VMA_EMPTY (SNAPSHOT_VMA_DROPPABLE | SNAPSHOT_VMA_WIPEONFORK)

/* Values in place of an index of the table of files, for a VMA and for a descriptor. */
#define SNAPSHOT_FILE_AGENT   0xffffffffU
#define SNAPSHOT_FILE_URANDOM 0xfffffffeU /* /dev/urandom, random(4) */

#define SNAPSHOT_URANDOM_DEVICE makedev(1, 9)

struct snapshot_vma {
    uint64_t start, end;
    uint64_t offset; /* in the file */
    uint32_t prot;   /* PROT_… */
    uint32_t flags;  /* enum snapshot_vma_flag */
    uint32_t file;
    uint32_t reserved;
};

/* The largest VMA with the beginning of a file that is copied if it is writable. */
#define SNAPSHOT_HEAD_MAX (1U << 20)

/* Return whether the content is copied to the VMA, and not mapped from the snapshot file. Stacks are copied,
 * because only anonymous memory grows. Code that was compiled at run time or calls back (ctypes) is copied,
 * because files of the store may not be executable (noexec, SELinux). A linker such as BOLT puts the ELF
 * header into a writable page. Debuggers (sys.remote_exec) find a program by the mapping of its header, so
 * that VMA stays one of its file. */
static inline bool snapshot_vma_is_copied(const struct snapshot_vma *a)
{
    const bool file = (a->flags & SNAPSHOT_VMA_FILE) != 0;
    if (file && (a->prot & PROT_WRITE) != 0 && a->offset == 0 && a->end - a->start <= SNAPSHOT_HEAD_MAX)
        return true;
    return (a->flags & (SNAPSHOT_VMA_STACK | SNAPSHOT_VMA_COPIED)) != 0 ||
           (!file && (a->prot & PROT_EXEC) != 0);
}

/* A single read returns no more, and the limit of read(2) ends it earlier. */
#define SNAPSHOT_COPY_MAX (1ULL << 30)

/* Pages with content, all of one VMA. */
struct snapshot_extent {
    uint64_t address, pages;
    uint64_t offset;  /* in the file, page aligned */
    uint64_t of_base; /* 1: the file is the base */
};

/* The snapshot that has the other pages of this one. It is named for messages; the rest identifies it. */
struct snapshot_base {
    char name[40];     /* its key; empty: there is none */
    uint64_t checksum; /* of its header and tables */
    uint64_t size, inode;
    int64_t modified; /* nanoseconds since 1970 */
};

/* Pages of the file that are copied over those of an extent, which then are private. Several small mappings
 * would cost more. */
struct snapshot_patch {
    uint64_t address, pages;
    uint64_t offset; /* in the file, page aligned */
};

#define SNAPSHOT_PATCH_MAX 32 /* pages */

/* Return whether the extent is the whole VMA: then nothing of the VMA itself would be visible. `page`:
 * bytes. */
static inline bool snapshot_extent_covers(const struct snapshot_extent *r, const struct snapshot_vma *a,
                                          uint64_t page)
{
    return r->address == a->start && r->pages * page == a->end - a->start;
}

/* A file that is mapped, other than the agent, or that has a descriptor. */
struct snapshot_file {
    uint64_t path; /* in the strings; absolute, beneath the container's root */
    struct file_identity identity;
};

/* Pages of one VMA that every process writes to before its program runs. They are made private at the
 * restore, all at once. */
struct snapshot_write {
    uint64_t address, pages;
    uint64_t for_dumps; /* 1: it does not write to them, but a core dump would lack their VMA otherwise */
};

#define SNAPSHOT_MAX_VDSO 4
#define SNAPSHOT_MAX_AUXV 64
#define SNAPSHOT_SIGNALS  64

/* The mappings that the kernel itself makes in every process. Libraries keep addresses of functions in them,
 * so they are restored at the same addresses. The kernel's own names identify them. */
struct snapshot_vdso {
    uint64_t start, end;
    char name[24]; /* "[vdso]", "[vvar]", "[vvar_vclock]" */
};

/* The machine and the runtime. A snapshot is valid only for the same kernel, the same CPU and the agent that
 * it has mapped. The CPU counts because libraries have chosen their code by its features. */
struct snapshot_host {
    char release[65], version[65]; /* uname(2) */
    char agent[33], padding[5];    /* warm/agent/agent.h */
    uint64_t cpu;                  /* hash of the answers of CPUID */
    uint64_t vdso;                 /* hash of the code that the kernel maps */
};

/* The only thread. Of the registers only those count that a function call preserves, because the process is
 * parked in one (System V ABI for x86-64, 3.2.1). */
struct snapshot_thread {
    uint64_t rip, rsp, rbp, rbx, r12, r13, r14, r15, flags, fs_base, gs_base;
    uint8_t fpu[512]; /* as written by FXSAVE: control words of x87 and SSE */
    uint64_t signal_mask;
    uint64_t altstack, altstack_size, altstack_flags;
    uint64_t tid_address;
    uint64_t robust_list, robust_list_size;
    uint64_t rseq;
    uint32_t rseq_size, rseq_signature;
};

/* In the form of the kernel's rt_sigaction(2). */
struct snapshot_signal {
    uint64_t handler, flags, restorer, mask;
};

/* The values of /proc/PID/stat, auxv and brk(2) (PR_SET_MM_MAP of prctl(2)). */
struct snapshot_memory {
    uint64_t start_code, end_code, start_data, end_data, start_brk, brk, start_stack;
    uint64_t auxv_count; /* of words */
    uint64_t auxv[SNAPSHOT_MAX_AUXV];
};

#define SNAPSHOT_MAX_DESCRIPTORS    32
#define SNAPSHOT_HIGHEST_DESCRIPTOR 255

/* A descriptor beyond the standard streams, open for reading: of a file, or of /dev/urandom. */
struct snapshot_descriptor {
    uint32_t fd, file; /* file: index of the table, which no other descriptor has, or SNAPSHOT_FILE_URANDOM */
    uint64_t position;
    uint32_t close_on_exec, reserved;
};

/* A table in the file. */
struct snapshot_table {
    uint64_t offset, count;
};

struct snapshot_header {
    uint64_t magic;
    uint32_t format, page_size;
    uint64_t checksum;    /* snapshot_checksum */
    uint64_t size;        /* of the file */
    uint64_t tables_size; /* of header and tables, whole pages */
    struct snapshot_table vmas, extents, patches, files, writes, strings, meta;
    struct snapshot_base base;
    struct snapshot_host host;
    struct snapshot_thread thread;
    struct snapshot_memory memory;
    uint64_t vdso_count, descriptor_count;
    struct snapshot_vdso vdso[SNAPSHOT_MAX_VDSO];
    struct snapshot_descriptor descriptors[SNAPSHOT_MAX_DESCRIPTORS];
    struct snapshot_signal signals[SNAPSHOT_SIGNALS]; /* [n] is signal n + 1 */
};

/* An open snapshot. Its pointers are valid until snapshot_close. */
struct snapshot {
    const struct snapshot_header *header;
    const struct snapshot_vma *vmas;
    const struct snapshot_extent *extents;
    const struct snapshot_patch *patches;
    const struct snapshot_file *files;
    const struct snapshot_write *writes;
    const char *strings;
    const void *meta;
    size_t vma_count, extent_count, patch_count, file_count, write_count, meta_size;
    void *map;
    size_t map_size;
};

/* Map and check header and tables. Return 0 or negative errno: -EINVAL for a file that is not a snapshot or
 * is damaged, -ENOTSUP for another version of the format. The descriptor still belongs to the caller. */
int snapshot_open(int fd, struct snapshot *out, struct error *err);
void snapshot_close(struct snapshot *snapshot);

static inline const char *snapshot_path(const struct snapshot *snapshot, const struct snapshot_file *file)
{
    return snapshot->strings + file->path;
}

/* Return the VMA that contains all of [address, address + size), or NULL. */
const struct snapshot_vma *snapshot_vma_at(const struct snapshot *snapshot, uint64_t address, uint64_t size);

/* Describe an open snapshot, of this name, as a base of others. Return 0 or negative errno. */
int snapshot_as_base(int fd, const char *name, struct snapshot_base *out, struct error *err);

/* Check that the file is the base of the snapshot, and unchanged. Return 0, or -ESTALE. */
int snapshot_check_base(const struct snapshot *snapshot, int fd, struct error *err);

/* Return the number of pages in the write set. */
uint64_t snapshot_write_pages(const struct snapshot *snapshot);

/* The parts of a snapshot, for snapshot_write. */
struct snapshot_parts {
    struct snapshot_header header; /* without magic, format, page size, checksum, sizes and tables */
    struct snapshot_vma *vmas;
    struct snapshot_extent *extents; /* the offsets in this file are filled in, in the order of the table, */
    struct snapshot_patch *patches;  /* and then those of the patches */
    struct snapshot_file *files;
    struct snapshot_write *writes;
    const char *strings;
    const void *meta;
    size_t vma_count, extent_count, patch_count, file_count, write_count, strings_size, meta_size;
};

/* Write header and tables and set the final length of the file. The caller writes the pages of the
 * extents. */
int snapshot_write(int fd, struct snapshot_parts *parts, struct error *err);

/* Describe this machine. */
void snapshot_host_now(struct snapshot_host *out);

/* Return the difference between two machines, in words, or NULL. */
const char *snapshot_host_difference(const struct snapshot_host *a, const struct snapshot_host *b);

/* Return the checksum of header and tables, `size` bytes at `data`; the checksum field of the header does not
 * count. */
uint64_t snapshot_checksum(const void *data, size_t size);
