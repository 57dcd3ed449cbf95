/* The libraries that the dynamic linker has loaded, and the one that has started a thread. */
#include "warm/agent/loaded.h"

#include <asm/unistd.h>
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>

#include "warm/agent/system.h"

static int add_library(struct loaded *loaded, unsigned long size, void *list)
{
    (void)size;
    PyObject *name = PyUnicode_DecodeFSDefault(loaded->name);
    int ret = name != NULL ? PyList_Append(list, name) : -1;
    if (name != NULL)
        Py_DecRef(name);
    return ret;
}

PyObject *libraries(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    PyObject *list = PyList_New(0);
    return list != NULL && dl_iterate_phdr(add_library, list) < 0 ? NULL : list;
}

/* The part of a thread's descriptor that is searched, in bytes after the list of robust mutexes. The place of
 * the thread's function differs between releases: in glibc 2.36 it is 856 bytes after the list. All code
 * addresses before it are glibc's own. */
enum { DESCRIPTOR_SIZE = 1400 };

struct search {
    uintptr_t address;
    const char *name; /* of the library with this address in its code, or NULL */
};

static int find_code(struct loaded *loaded, unsigned long size, void *data)
{
    (void)size;
    struct search *search = data;
    const Elf64_Phdr *headers = loaded->headers;
    for (unsigned i = 0; i < loaded->header_count; i++) {
        const Elf64_Phdr *h = &headers[i];
        if (h->p_type != PT_LOAD || (h->p_flags & PF_X) == 0 ||
            search->address - (loaded->address + h->p_vaddr) >= h->p_memsz)
            continue;
        search->name = loaded->name;
        return 1;
    }
    return 0;
}

static const char *library_at(uintptr_t address)
{
    struct search search = {address, NULL};
    dl_iterate_phdr(find_code, &search);
    return search.name;
}

/* The size of a page at least; a smaller step only costs another system call. */
enum { STEP = 4096 };

/* Copy memory of which a part may not be mapped. The kernel reads it, for a write to a pipe. (A memory file
 * would do as well, but a container may be refused memfd_create(2).) A write fails as a whole if a part of
 * the memory is not mapped, so each write ends at a page boundary. Returns the number of words that were
 * copied. `count` words fit into a pipe. */
static size_t copy_words(uintptr_t *out, size_t count, const void *from)
{
    int ends[2] = {-1, -1};
    if (system_call(__NR_pipe2, (long)ends, O_CLOEXEC, 0, 0) < 0)
        return 0;
    uintptr_t at = (uintptr_t)from, end = at + count * sizeof(*out);
    while (at < end) {
        uintptr_t next = (at / STEP + 1) * STEP;
        long written = system_call(__NR_write, ends[1], (long)at, (long)((next < end ? next : end) - at), 0);
        if (written <= 0)
            break;
        at += (uintptr_t)written;
    }
    system_call(__NR_close, ends[1], 0, 0, 0);
    size_t size = at - (uintptr_t)from, copied = 0;
    while (copied < size) {
        long got = system_call(__NR_read, ends[0], (long)((char *)out + copied), (long)(size - copied), 0);
        if (got <= 0)
            break;
        copied += (size_t)got;
    }
    system_call(__NR_close, ends[0], 0, 0, 0);
    return copied / sizeof(*out);
}

const char *library_of_thread(uintptr_t robust_list)
{
    uintptr_t words[DESCRIPTOR_SIZE / sizeof(uintptr_t)] = {0};
    size_t count = 0;
    /* The head of the list is a part of glibc's descriptor of the thread: set_robust_list(2). */
    if (robust_list != 0)
        count = copy_words(words, sizeof(words) / sizeof(words[0]), (const void *)robust_list);
    const char *libc = library_at((uintptr_t)&fork), *linker = library_at((uintptr_t)&__tls_get_addr);
    for (size_t i = 0; i < count; i++) {
        const char *name = library_at(words[i]);
        if (name != NULL && name != libc && name != linker)
            return name;
    }
    return NULL;
}
