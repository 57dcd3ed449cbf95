/* Replace the runtime's binary in the process by a copy (CVE-2019-5736). Other runtimes copy or re-execute
 * themselves at the start of every command. Here, the only child that enters a container moves its few pages
 * to a sealed file in memory. */
#include "sandbox/detach.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

#define MAX_RANGES 16

static uintptr_t detach_page_down(uintptr_t address, uintptr_t page)
{
    return address & ~(page - 1);
}

static int protection(uint32_t flags)
{
    return ((flags & PF_R) != 0 ? PROT_READ : 0) | ((flags & PF_W) != 0 ? PROT_WRITE : 0) |
           ((flags & PF_X) != 0 ? PROT_EXEC : 0);
}

enum kind {
    KIND_CONSTANT,
    KIND_OWN,      /* writable, so parent and child differ */
    KIND_LEFT_OUT, /* no later step needs it */
};

/* A part of the program in memory, in whole pages. */
struct range {
    uintptr_t start, end;
    int prot;
    enum kind kind;
};

struct program {
    uintptr_t base, page;
    struct range ranges[MAX_RANGES];
    size_t count;
};

static void add_range(struct program *program, uintptr_t start, uintptr_t end, int prot, enum kind kind)
{
    if (start < end && program->count < MAX_RANGES)
        program->ranges[program->count++] = (struct range){start, end, prot, kind};
}

/* The ends of the parts that are no longer needed. The linker of the static program puts there the code that
 * has already run, code that container/child/finish.h does not reach, and the agent (runtime/left-out.awk). A
 * dynamic program needs all its parts. The headers belong to them: a library that binds a symbol late reads
 * the program's symbol table. */
extern const char left_out_end[] __attribute__((weak, visibility("hidden")));
extern const char left_out_constants_end[] __attribute__((weak, visibility("hidden")));

static void add_constants(struct program *program, uintptr_t start, uintptr_t end, int prot)
{
    uintptr_t constants = detach_page_down((uintptr_t)left_out_constants_end, program->page);
    uintptr_t middle = detach_page_down((uintptr_t)left_out_end, program->page);
    middle = constants >= start && constants <= end ? constants : middle;
    middle = middle < start ? start : middle > end ? end : middle;
    add_range(program, start, middle, prot, KIND_LEFT_OUT);
    add_range(program, middle, end, prot, KIND_CONSTANT);
}

/* Collect the ranges of the first object reported, which is the program itself. The part of its data that
 * became read-only after relocation stays read-only. */
static int detach_find_ranges(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct program *program = data;
    uintptr_t page = program->page, relro_start = 0, relro_end = 0;
    program->base = info->dlpi_addr;
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO) {
            relro_start = detach_page_down(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, page);
            relro_end = detach_page_down(
                info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz, page);
        }
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type != PT_LOAD || h->p_filesz == 0)
            continue;
        uintptr_t start = detach_page_down(info->dlpi_addr + h->p_vaddr, page);
        uintptr_t end = detach_page_down(info->dlpi_addr + h->p_vaddr + h->p_filesz + page - 1, page);
        if ((h->p_flags & PF_W) == 0) {
            add_constants(program, start, end, protection(h->p_flags));
        } else {
            bool relro = relro_start >= start && relro_end <= end && relro_start < relro_end;
            if (relro) {
                add_range(program, start, relro_start, protection(h->p_flags), KIND_OWN);
                add_range(program, relro_start, relro_end, PROT_READ, KIND_CONSTANT);
                start = relro_end;
            }
            add_range(program, start, end, protection(h->p_flags), KIND_OWN);
        }
    }
    return 1;
}

/* Return the offset of the first range in the copy's file. The file begins with a hole, so that execve(2)
 * does not take it for a program. */
static off_t first_offset(const struct program *program)
{
    return (off_t)program->page;
}

static struct program detach_find_program(void)
{
    struct program program = {.page = (uintptr_t)sysconf(_SC_PAGESIZE)};
    dl_iterate_phdr(detach_find_ranges, &program);
    return program;
}

int detach_prepare(void)
{
    int fd = memfd_create("pysbx-init", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("pysbx-init", MFD_CLOEXEC | MFD_ALLOW_SEALING); /* MFD_EXEC needs Linux 6.3 */
    return fd;
}

/* True if the copy is sealed. The seals say that it is complete, and keep it complete. */
static bool is_filled(int fd)
{
    int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_WRITE) != 0;
}

static int detach_fill_bytes(int fd, const struct program *program)
{
    off_t offset = first_offset(program);
    for (size_t i = 0; i < program->count; i++) {
        const struct range *r = &program->ranges[i];
        if (r->kind != KIND_CONSTANT)
            continue;
        for (uintptr_t from = r->start; from < r->end;) {
            /* Not pwrite(3): AddressSanitizer would refuse to read the gaps between variables. */
            long n = RETRY(syscall(SYS_pwrite64, fd, from, r->end - from, offset));
            if (n <= 0)
                return n < 0 ? -errno : -EIO;
            from += (uintptr_t)n;
            offset += n;
        }
    }
    int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    return fcntl(fd, F_ADD_SEALS, seals) < 0 ? -errno : 0;
}

void detach_fill(int *fd)
{
    struct program program = detach_find_program();
    if (*fd >= 0)
        (void)detach_fill_bytes(*fd, &program);
    fd_close(fd);
}

typedef unsigned long __attribute__((may_alias)) word;

/* Copy whole pages, with the gaps between variables. AddressSanitizer would refuse memcpy(3) there. */
__attribute__((no_sanitize("address"))) static void copy_pages(void *to, uintptr_t from, size_t size)
{
    word *restrict target = to;
    const word *restrict source = (const word *)from;
    for (size_t i = 0; i < size / sizeof(word); i++)
        target[i] = source[i];
}

/* Replace the process' own data by anonymous pages with the same bytes, in one step. */
static int copy_in_place(const struct range *r)
{
    size_t size = r->end - r->start;
    void *copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (copy == MAP_FAILED)
        return -errno;
    copy_pages(copy, r->start, size);
    return mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)r->start) == MAP_FAILED ? -errno
                                                                                                   : 0;
}

/* Map code from the file, because SELinux forbids making anonymous memory executable (execmem). The kernel
 * replaces the old mapping in one step, so this works even for the code that is running. */
static int replace_ranges(const struct program *program, int fd)
{
    off_t offset = first_offset(program);
    for (size_t i = 0; i < program->count; i++) {
        const struct range *r = &program->ranges[i];
        size_t size = r->end - r->start;
        int ret = 0;
        if (r->kind == KIND_OWN) {
            ret = copy_in_place(r);
        } else if (r->kind == KIND_LEFT_OUT) {
            ret = munmap((void *)r->start, size) < 0 ? -errno : 0;
        } else {
            void *put = mmap((void *)r->start, size, r->prot, MAP_PRIVATE | MAP_FIXED, fd, offset);
            ret = put == MAP_FAILED ? -errno : 0;
            offset += (off_t)size;
        }
        if (ret < 0)
            return ret;
    }
    return 0;
}

int detach_from_binary(int copy, int exe, struct error *err)
{
    struct program program = detach_find_program();
    cleanup_fd int own = -1;
    if (!is_filled(copy)) {
        own = detach_prepare();
        copy = own;
        int ret = copy < 0 ? -errno : detach_fill_bytes(copy, &program);
        if (ret < 0)
            return error_set(err, ret, "copy the runtime's program to a file in memory");
    }
    int ret = replace_ranges(&program, copy);
    if (ret < 0)
        return error_set(err, ret, "replace the runtime's program by its copy");
    /* The kernel checks only the order of these addresses. The next execve sets them anew. */
    uint64_t low = program.base + program.page, stack = (uintptr_t)__builtin_frame_address(0);
    uint64_t brk = (uintptr_t)sbrk(0);
    struct prctl_mm_map map = {
        .start_code = low,
        .end_code = low + 1,
        .start_data = low,
        .end_data = low + 1,
        .start_brk = brk,
        .brk = brk,
        .start_stack = stack,
        .arg_start = stack,
        .arg_end = stack,
        .env_start = stack,
        .env_end = stack,
        .exe_fd = (uint32_t)(exe >= 0 ? exe : copy),
    };
    if (prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0) < 0)
        return error_set(
            err, -errno,
            "detach from the runtime's binary (PR_SET_MM_MAP; the kernel needs CONFIG_CHECKPOINT_RESTORE)");
    return 0;
}
