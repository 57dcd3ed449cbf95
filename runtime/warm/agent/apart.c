/* Continue in a copy of the agent that the dynamic linker has not loaded. The linker would list the agent in
 * the restored process among the libraries: for dl_iterate_phdr(3), debuggers, and code that walks the stack.
 * Its lists are its own, and differ between releases. So they are not edited. The copy has the relocated data
 * of the original, and dlclose(3) removes the original. */
#include "warm/agent/apart.h"

#include <asm/unistd.h>
#include <elf.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <stdbool.h>

#include "warm/agent/system.h"

#define RTLD_NOW    2
#define RTLD_NOLOAD 4
#define PAGE        4096

/* The linker defines it: the start of the file in memory. */
extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

/* The name of the original. Only the copy has one. */
static char original[256];

/* The most handles of one library that CPython opens: since 3.15 two, for two names of a function. */
#define HANDLES_MAX 4

struct loaded own_object(void)
{
    const char *start = (const char *)&__ehdr_start;
    return (struct loaded){.address = (uintptr_t)start,
                           .headers = start + __ehdr_start.e_phoff,
                           .header_count = __ehdr_start.e_phnum};
}

static uintptr_t page_down(uintptr_t address)
{
    return address & ~(uintptr_t)(PAGE - 1);
}

static uintptr_t page_up(uintptr_t address)
{
    return page_down(address + PAGE - 1);
}

static int find_name(struct loaded *loaded, unsigned long size, void *name)
{
    (void)size;
    if (loaded->address != (uintptr_t)&__ehdr_start)
        return 0;
    *(const char **)name = loaded->name;
    return 1;
}

/* Map a segment of the file at its place in the copy. Give a writable one the data of the original. */
static bool map_segment(const struct loaded *from, uintptr_t to, const Elf64_Phdr *h, int fd)
{
    const uintptr_t start = page_down(h->p_vaddr), middle = page_up(h->p_vaddr + h->p_filesz);
    const uintptr_t end = page_up(h->p_vaddr + h->p_memsz);
    const int prot = ((h->p_flags & PF_R) != 0 ? PROT_READ : 0) |
                     ((h->p_flags & PF_W) != 0 ? PROT_WRITE : 0) | ((h->p_flags & PF_X) != 0 ? PROT_EXEC : 0);
    if (mmap((void *)(to + start), middle - start, prot, MAP_PRIVATE | MAP_FIXED, fd,
             (long)page_down(h->p_offset)) != (void *)(to + start))
        return false;
    if (end > middle && mmap((void *)(to + middle), end - middle, prot,
                             MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0) != (void *)(to + middle))
        return false;
    if ((h->p_flags & PF_W) == 0)
        return true;
    const char *source = (const char *)(from->address + h->p_vaddr);
    for (char *target = (char *)(to + h->p_vaddr), *last = target + h->p_memsz; target < last;)
        *target++ = *source++;
    return true;
}

uintptr_t dynamic_entry(const struct loaded *of, const Elf64_Dyn *entries, int64_t tag, bool address)
{
    for (; entries->d_tag != DT_NULL; entries++)
        if (entries->d_tag == tag)
            return entries->d_un.d_val + (address && entries->d_un.d_val < of->address ? of->address : 0);
    return 0;
}

/* Move the pointers of the copy that lead into the original. False: a function is bound only at its first
 * call, by a linker that would find the original (LD_AUDIT). */
static bool relocate(const struct loaded *from, uintptr_t to, uintptr_t size, const Elf64_Dyn *entries)
{
    static const struct {
        int64_t table, size;
        bool functions;
    } tables[] = {{DT_RELA, DT_RELASZ, false}, {DT_JMPREL, DT_PLTRELSZ, true}};
    for (int t = 0; t < 2; t++) {
        const Elf64_Rela *r = (const Elf64_Rela *)dynamic_entry(from, entries, tables[t].table, true);
        const Elf64_Rela *end = r + dynamic_entry(from, entries, tables[t].size, false) / sizeof(*r);
        for (; r < end; r++) {
            uintptr_t *slot = (uintptr_t *)(to + r->r_offset);
            if (*slot - from->address >= size)
                continue;
            if (tables[t].functions)
                return false;
            *slot += to - from->address;
        }
    }
    return true;
}

static bool fill(const struct loaded *from, uintptr_t to, uintptr_t size, int fd)
{
    const Elf64_Phdr *headers = from->headers;
    const Elf64_Dyn *entries = NULL;
    for (unsigned i = 0; i < from->header_count; i++) {
        if (headers[i].p_type == PT_LOAD && !map_segment(from, to, &headers[i], fd))
            return false;
        if (headers[i].p_type == PT_DYNAMIC)
            entries = (const Elf64_Dyn *)(from->address + headers[i].p_vaddr);
    }
    if (entries == NULL || !relocate(from, to, size, entries))
        return false;
    for (unsigned i = 0; i < from->header_count; i++)
        if (headers[i].p_type == PT_GNU_RELRO) {
            const uintptr_t start = page_down(headers[i].p_vaddr);
            const uintptr_t end = page_down(headers[i].p_vaddr + headers[i].p_memsz);
            system_call(__NR_mprotect, (long)(to + start), (long)(end - start), PROT_READ, 0);
        }
    return true;
}

uintptr_t make_copy(void)
{
    const struct loaded own = own_object();
    const Elf64_Phdr *headers = own.headers;
    uintptr_t size = 0;
    const char *name = NULL;
    for (unsigned i = 0; i < own.header_count; i++)
        if (headers[i].p_type == PT_LOAD)
            size = page_up(headers[i].p_vaddr + headers[i].p_memsz);
    if (dlopen == NULL || dlclose == NULL || dl_iterate_phdr(find_name, &name) == 0 ||
        text_length(name) >= (ptrdiff_t)sizeof(original))
        return 0;
    const long fd = system_call(__NR_openat, AT_FDCWD, (long)name, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    void *area = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool made = false;
    for (char *to = original; (*to++ = *name++) != '\0';)
        ;
    if (area != (void *)-1)
        made = fill(&own, (uintptr_t)area, size, (int)fd);
    original[0] = '\0';
    if (area != (void *)-1 && !made)
        system_call(__NR_munmap, (long)area, (long)size, 0, 0);
    system_call(__NR_close, fd, 0, 0, 0);
    return made ? (uintptr_t)area - own.address : 0;
}

void unload_original(void)
{
    for (int i = 0; i < HANDLES_MAX && original[0] != '\0'; i++) {
        void *handle = dlopen(original, RTLD_NOW | RTLD_NOLOAD);
        if (handle == NULL)
            return;
        dlclose(handle); /* this one */
        dlclose(handle); /* one of CPython's */
    }
}
