/* The files of the minimal init: elf(5), memfd_create(2), and F_ADD_SEALS in fcntl(2). */
#include "container/first.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "container/child/first_program.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* Where the file is mapped. */
#define ADDRESS 0x400000UL

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#else
#define MACHINE EM_AARCH64
#endif

/* The code follows. */
struct image {
    Elf64_Ehdr header;
    Elf64_Phdr parts[2];
};

static int write_image(int fd)
{
    const size_t code = (uintptr_t)first_code_end - (uintptr_t)first_code_start;
    struct image image = {
        .header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                   .e_type = ET_EXEC,
                   .e_machine = MACHINE,
                   .e_version = EV_CURRENT,
                   .e_entry = ADDRESS + sizeof(image) + (uintptr_t)first_enter - (uintptr_t)first_code_start,
                   .e_phoff = offsetof(struct image, parts),
                   .e_ehsize = sizeof(image.header),
                   .e_phentsize = sizeof(image.parts[0]),
                   .e_phnum = sizeof(image.parts) / sizeof(image.parts[0])},
        .parts = {{.p_type = PT_LOAD,
                   .p_flags = PF_R | PF_X,
                   .p_vaddr = ADDRESS,
                   .p_filesz = sizeof(image) + code,
                   .p_memsz = sizeof(image) + code,
                   .p_align = 0x1000},
                  {.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W}},
    };
    int ret = io_write_full(fd, &image, sizeof(image));
    return ret < 0 ? ret : io_write_full(fd, first_code_start, code);
}

/* The file cannot be read, so that the kernel makes its process non-dumpable from its first instant. */
static int make_program(struct error *err)
{
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    cleanup_fd int fd = memfd_create("init", flags | MFD_EXEC);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("init", flags); /* MFD_EXEC exists since Linux 6.3 */
    int ret = fd < 0 ? -errno : write_image(fd);
    if (ret == 0 && (fchmod(fd, S_IXUSR | S_IXGRP | S_IXOTH) < 0 ||
                     fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0))
        ret = -errno;
    return ret < 0 ? error_set(err, ret, "copy the init to a file in memory") : fd_steal(&fd);
}

static int make_report(struct first_plan *first, struct error *err)
{
    cleanup_fd int fd = memfd_create("ending", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, FIRST_REPORT_SIZE) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        return error_set(err, -errno, "make a file in memory for the status of the program");
    void *page = mmap(NULL, FIRST_REPORT_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return error_set(err, -errno, "map a file in memory for the status of the program");
    first->page = page;
    first->report = fd_steal(&fd);
    return 0;
}

int first_prepare(struct first_plan *first, bool reports, struct error *err)
{
    if (!first->wanted)
        return 0;
    void *stack = mmap(NULL, FIRST_STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        return error_set(err, -errno, "make a stack for the program's process");
    first->stack = stack;
    int ret = first->program = make_program(err);
    return ret < 0 || !reports ? (ret < 0 ? ret : 0) : make_report(first, err);
}

void first_release(struct first_plan *first)
{
    if (!first->wanted)
        return;
    fd_close(&first->program);
    fd_close(&first->report);
    if (first->page != NULL)
        munmap((void *)(uintptr_t)first->page, FIRST_REPORT_SIZE);
    first->page = NULL;
    if (first->stack != NULL)
        munmap(first->stack, FIRST_STACK_SIZE);
    first->stack = NULL;
}

int first_status(const struct first_plan *first, int status)
{
    return first->wanted && first->page != NULL && first->page[FIRST_ENDED] == 1 ? first->page[FIRST_STATUS]
                                                                                 : status;
}
