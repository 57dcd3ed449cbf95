/* The memory that a restore may map from the snapshot's file (memory.h). There are three kinds.
 *
 * - The arenas of the interpreter, of 256 KiB or 1 MiB. obmalloc.c only maps and unmaps them.
 * - Zeros of the libraries (.bss). They belong to their code.
 * - The heap (brk(2)), if it consists of glibc's blocks alone. glibc only moves the end of the heap. When it
 *   gives back pages inside (malloc_trim(3)), it expects nothing of their content.
 *
 * Everything else is copied. glibc moves its large blocks by mremap(2). So a builder gets in the heap those
 * that the interpreter does not resize: tables of dictionaries, above all that of all interned strings. Other
 * allocators rely on zeros after MADV_DONTNEED. Mappings of programs may be given to any call. */
#include "warm/agent/memory.h"

#include <asm/unistd.h>
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>

#include "warm/agent/system.h"

enum { PAGE = 4096 };

/* The list: arenas in any order, then the data of libraries, which is listed anew each time. If it is full,
 * the rest is copied. */
static struct warm_range ranges[WARM_RANGES_MAX];
static size_t arena_count;
static struct warm_memory list;
static uint64_t heap; /* its first block; 0: the process has another allocator */

/* Interpreters with a lock of their own may allocate at the same time. Then the list is no longer true. */
static bool busy, unknown, filling;

static PyObjectArenaAllocator original;
static PyMemAllocatorEx raw; /* of the interpreter, for blocks that are no small objects */

static void add(size_t *count, uint64_t start, uint64_t end)
{
    for (size_t i = 0; i < *count; i++) {
        if (ranges[i].end == start) {
            ranges[i].end = end;
            return;
        }
        if (ranges[i].start == end) {
            ranges[i].start = start;
            return;
        }
    }
    if (start < end && *count < WARM_RANGES_MAX)
        ranges[(*count)++] = (struct warm_range){start, end};
}

static void remove_arena(uint64_t start, uint64_t end)
{
    for (size_t i = arena_count; i-- > 0;) {
        const struct warm_range r = ranges[i];
        if (r.end <= start || end <= r.start)
            continue;
        ranges[i] = ranges[--arena_count];
        if (r.start < start)
            add(&arena_count, r.start, start);
        if (end < r.end)
            add(&arena_count, end, r.end);
    }
}

static void note_arena(void *arena, size_t size, bool exists)
{
    const uint64_t start = (uint64_t)arena, end = start + size / PAGE * PAGE;
    if (__atomic_exchange_n(&busy, true, __ATOMIC_ACQUIRE)) {
        unknown = true;
        return;
    }
    if (exists)
        add(&arena_count, start, end);
    else
        remove_arena(start, end);
    __atomic_store_n(&busy, false, __ATOMIC_RELEASE);
}

static void *allocate_arena(void *context, size_t size)
{
    (void)context;
    void *arena = original.allocate(original.context, size);
    if (arena != NULL)
        note_arena(arena, size, true);
    return arena;
}

static void free_arena(void *context, void *arena, size_t size)
{
    (void)context;
    note_arena(arena, size, false);
    original.free(original.context, arena, size);
}

/* Allocate a large block in the heap. glibc maps it, unless the heap has a free block of this size. So
 * allocate pieces until enough of them are a row, and free them. The last piece stays in the meantime,
 * because glibc gives the end of the heap back. */
static void *allocate_in_heap(size_t size)
{
    enum { PIECE = 64 << 10, LARGEST = 16 << 20, PIECES_MAX = 2 * (LARGEST / PIECE) };
    static char *pieces[PIECES_MAX];
    size_t count = 0, first = 0;
    while (count < PIECES_MAX && (count - first) * PIECE < size + 2 * PIECE) {
        char *piece = raw.allocate(raw.context, PIECE - 16);
        if (piece == NULL)
            break;
        if (count == 0 || piece != pieces[count - 1] + PIECE)
            first = count;
        pieces[count++] = piece;
    }
    for (size_t i = 0; i + 1 < count; i++)
        raw.free(raw.context, pieces[i]);
    void *block = raw.allocate(raw.context, size);
    if (count > 0)
        raw.free(raw.context, pieces[count - 1]);
    return block;
}

/* Threads may allocate at the same time. */
static void *allocate_raw(void *context, size_t size)
{
    enum { LARGE = 128 << 10, LARGEST = 16 << 20 };
    if (size < LARGE || size > LARGEST || __atomic_exchange_n(&filling, true, __ATOMIC_ACQUIRE))
        return raw.allocate(context, size);
    void *block = allocate_in_heap(size);
    __atomic_store_n(&filling, false, __ATOMIC_RELEASE);
    return block;
}

static uint64_t mapped_block(uint64_t address, uint64_t end)
{
    return warm_mapped_block((const uint64_t *)address, PAGE, end - address);
}

static bool mapped_block_of(const void *block, uint64_t size)
{
    const uint64_t address = (uint64_t)block;
    return address % PAGE == 16 && mapped_block(address - 16, address + 2 * size) > size;
}

/* Return whether the interpreter has large blocks from glibc's malloc(3), as mapped_block() expects them: a
 * test, because a symbol does not tell. An allocator may be preloaded, or a part of the program or the
 * interpreter (PYTHONMALLOC=mimalloc). */
static bool has_glibc_blocks(void)
{
    /* glibc maps each block above its threshold. That grows from 128 KiB to 32 MiB at most, when such a block
     * is freed. So the first one is kept. */
    enum { LEAST = 132 << 10, LARGE = 1 << 26 };
    void *block = PyObject_Malloc(LEAST);
    if (mapped_block_of(block, LEAST))
        return true;
    PyObject_Free(block);
    block = PyObject_Malloc(LARGE);
    bool known = mapped_block_of(block, LARGE);
    PyObject_Free(block);
    return known;
}

/* List a VMA of the interpreter, without the large blocks in it. */
static void add_early(uint64_t start, uint64_t end)
{
    for (uint64_t at = start; at < end;) {
        uint64_t block = mapped_block(at, end);
        if (block == 0) {
            at += PAGE;
            continue;
        }
        add(&arena_count, start, at);
        start = at += block;
    }
    add(&arena_count, start, end);
}

static const char *read_number(const char *p, uint64_t *out)
{
    for (*out = 0;; p++) {
        unsigned digit = (unsigned)(*p <= '9' ? *p - '0' : *p - 'a' + 10);
        if (digit > 15)
            return p + 1;
        *out = *out << 4 | digit;
    }
}

/* Take a line of /proc/PID/maps: anonymous memory that is not the heap or a stack has no name. `alone`: only
 * the interpreter and glibc have mapped memory. */
static void add_line(const char *line, ptrdiff_t size, bool alone)
{
    uint64_t start, end;
    const char *permissions = read_number(read_number(line, &start), &end);
    static const char expected[] = "rw-p 00000000 00:00 0", heap_name[] = "[heap]";
    for (size_t i = 0; i < sizeof(expected) - 1; i++)
        if (permissions[i] != expected[i])
            return;
    const char *name = permissions + sizeof(expected) - 1;
    while (name < line + size && *name == ' ')
        name++;
    size_t same = 0;
    while (name + same < line + size && same < sizeof(heap_name) - 1 && name[same] == heap_name[same])
        same++;
    if (same == sizeof(heap_name) - 1 && heap == 0)
        heap = start;
    if (name == line + size && alone)
        add_early(start, end);
}

/* Read /proc/self/maps. Without it, this memory and the heap are copied. */
static void add_interpreter(bool alone)
{
    static char text[1 << 16];
    long fd = system_call(__NR_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    ptrdiff_t size = 0;
    for (long n; fd >= 0 &&
                 (n = system_call(__NR_read, fd, (long)(text + size), (long)sizeof(text) - 1 - size, 0)) > 0;)
        size += n;
    system_call(__NR_close, fd, 0, 0, 0);
    for (ptrdiff_t from = 0, to = 0; to < size; to++) {
        if (text[to] != '\n')
            continue;
        add_line(text + from, to - from, alone);
        from = to + 1;
    }
    for (ptrdiff_t i = 0; i < size; i++)
        text[i] = 0; /* not a part of the snapshot */
}

PyObject *note_memory(PyObject *self, PyObject *args)
{
    (void)self;
    int alone;
    if (!PyArg_ParseTuple(args, "p", &alone))
        return NULL;
    if (PyObject_GetArenaAllocator != NULL && PyObject_SetArenaAllocator != NULL) {
        if (has_glibc_blocks()) {
            add_interpreter(alone != 0);
            PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &raw);
            PyMemAllocatorEx watched = {raw.context, allocate_raw, raw.allocate_zeros, raw.resize, raw.free};
            PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &watched);
        }
        PyObject_GetArenaAllocator(&original);
        PyObjectArenaAllocator watched = {NULL, allocate_arena, free_arena};
        PyObject_SetArenaAllocator(&watched);
    }
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

static uint64_t page_end(uint64_t address)
{
    return (address + PAGE - 1) / PAGE * PAGE;
}

/* List the memory of a library that it may write to: its data, which a snapshot has and a restored process
 * maps from there, and the zeros behind it. */
static int add_data(struct loaded *loaded, unsigned long size, void *count)
{
    (void)size;
    const Elf64_Phdr *headers = loaded->headers;
    for (unsigned i = 0; i < loaded->header_count; i++) {
        const Elf64_Phdr *h = &headers[i];
        uint64_t start = loaded->address + h->p_vaddr;
        if (h->p_type == PT_LOAD && (h->p_flags & PF_W) != 0)
            add(count, start / PAGE * PAGE, page_end(start + h->p_memsz));
    }
    return 0;
}

/* Return whether there is a row of glibc's blocks from an address to the end of the heap. *last: the address
 * of the last one. */
static bool is_row(uint64_t at, uint64_t end, uint64_t *last)
{
    enum { SMALLEST = 32, MULTIPLE = 16, MAPPED = 2, OTHER_ARENA = 4 };
    while (at < end) {
        const uint64_t word = ((const uint64_t *)at)[1], size = word & ~7ULL;
        if (size < SMALLEST || size % MULTIPLE != 0 || size > end - at ||
            (word & (MAPPED | OTHER_ARENA)) != 0)
            return false;
        *last = at;
        at += size;
    }
    return true;
}

/* Return whether the heap is a row of glibc's blocks, up to its end. Others may have moved the end, too: sbrk
 * in a program, tcmalloc and jemalloc in a library. A heap grows only at its end. So after the first time,
 * also in a restored process, the row from what was the last block is enough, unless that has become a part
 * of another block. */
static bool is_glibc_heap(void)
{
    static uint64_t last, last_end;
    const uint64_t end = (uint64_t)system_call(__NR_brk, 0, 0, 0, 0);
    bool is = last != 0 && end >= last_end && is_row(last, end, &last);
    if (!is)
        is = heap != 0 && is_row(heap, end, &last);
    last_end = end;
    if (!is)
        last = 0;
    return is;
}

/* Return whether the arenas in the list are all, and nothing else. */
static bool knows_arenas(void)
{
    if (unknown || busy || original.allocate == NULL)
        return false;
    PyObjectArenaAllocator now; /* an extension may have set another */
    PyObject_GetArenaAllocator(&now);
    return now.allocate == allocate_arena && now.free == free_arena;
}

const struct warm_memory *memory_list(void)
{
    PyMemAllocatorEx now; /* a module may have set another */
    PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &now);
    if (now.allocate == allocate_raw)
        PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &raw);
    size_t count = knows_arenas() ? arena_count : 0;
    dl_iterate_phdr(add_data, &count);
    list = (struct warm_memory){WARM_MEMORY_MAGIC, is_glibc_heap(), count, (uint64_t)ranges};
    return &list;
}
