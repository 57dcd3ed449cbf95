/* The libraries that the dynamic linker has loaded, and the one that has started a thread. */
#include "warm/agent/loaded.h"

#include <asm/unistd.h>
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>

#include "warm/agent/apart.h"
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

/* The beginning of libffi's record of its trampolines, of which it maps more from its own file when it needs
 * some (tramp_globals in its src/tramp.c, since 3.4). */
struct trampolines {
    int fd;
    uint64_t offset; /* of their code in the file, and its address */
    uint64_t code;
};

struct trampoline_search {
    int fd;
    unsigned count;
    struct trampolines *found;
    const char *library;
    PyObject *users; /* names of the libraries that need this one */
};

/* Return whether this is the code at this offset of the library's file. */
static bool is_code_of(const struct loaded *loaded, uint64_t code, uint64_t offset)
{
    const Elf64_Phdr *headers = loaded->headers;
    for (unsigned i = 0; i < loaded->header_count; i++) {
        const uint64_t start = loaded->address + headers[i].p_vaddr;
        if (headers[i].p_type == PT_LOAD && (headers[i].p_flags & PF_X) != 0 &&
            code - start < headers[i].p_filesz && headers[i].p_offset + (code - start) == offset)
            return true;
    }
    return false;
}

static int find_trampolines(struct loaded *loaded, unsigned long size, void *data)
{
    struct trampoline_search *search = data;
    const Elf64_Phdr *headers = loaded->headers;
    (void)size;
    for (unsigned i = 0; i < loaded->header_count; i++) {
        if (headers[i].p_type != PT_LOAD || (headers[i].p_flags & PF_W) == 0)
            continue;
        const uint64_t end = loaded->address + headers[i].p_vaddr + headers[i].p_memsz;
        uint64_t at = (loaded->address + headers[i].p_vaddr + 7) & ~7ULL;
        for (; at + sizeof(struct trampolines) <= end; at += 8) {
            struct trampolines *place = (struct trampolines *)at;
            if (place->fd != search->fd || !is_code_of(loaded, place->code, place->offset))
                continue;
            search->count++;
            search->found = place;
            search->library = loaded->name;
        }
    }
    return 0;
}

static bool is_equal(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b)
        a++, b++;
    return *a == *b;
}

static const char *base_name(const char *path)
{
    const char *name = path;
    for (; *path != '\0'; path++)
        if (*path == '/')
            name = path + 1;
    return name;
}

static bool needs(const struct loaded *loaded, const char *name)
{
    const Elf64_Phdr *headers = loaded->headers;
    const Elf64_Dyn *entries = NULL;
    for (unsigned i = 0; i < loaded->header_count; i++)
        if (headers[i].p_type == PT_DYNAMIC)
            entries = (const Elf64_Dyn *)(loaded->address + headers[i].p_vaddr);
    const char *strings =
        entries != NULL ? (const char *)dynamic_entry(loaded, entries, DT_STRTAB, true) : NULL;
    for (; strings != NULL && entries->d_tag != DT_NULL; entries++)
        if (entries->d_tag == DT_NEEDED && is_equal(strings + entries->d_un.d_val, name))
            return true;
    return false;
}

static int add_user(struct loaded *loaded, unsigned long size, void *data)
{
    struct trampoline_search *search = data;
    if (loaded->name != search->library && !needs(loaded, base_name(search->library)))
        return 0;
    return add_library(loaded, size, search->users);
}

PyObject *trampolines(PyObject *self, PyObject *number)
{
    struct trampoline_search search = {.fd = (int)PyLong_AsLong(number)};
    (void)self;
    dl_iterate_phdr(find_trampolines, &search);
    if (search.count != 1) {
        Py_IncRef(&_Py_NoneStruct);
        return &_Py_NoneStruct;
    }
    search.users = PyList_New(0);
    if (search.users == NULL || dl_iterate_phdr(add_user, &search) < 0)
        return NULL;
    return Py_BuildValue("(kyN)", (unsigned long)&search.found->fd, search.library, search.users);
}

PyObject *open_for(PyObject *self, PyObject *args)
{
    const char *path;
    int inheritable;
    unsigned long place;
    (void)self;
    if (!PyArg_ParseTuple(args, "yik", &path, &inheritable, &place))
        return NULL;
    const long fd =
        system_call(__NR_openat, AT_FDCWD, (long)path, O_RDONLY | (inheritable != 0 ? 0 : O_CLOEXEC), 0);
    *(int *)place = fd >= 0 ? (int)fd : -1;
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
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

const char *library_at(uintptr_t address)
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
