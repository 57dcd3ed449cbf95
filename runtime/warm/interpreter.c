/* Recognise the interpreter by its name and the head of the ELF file (elf(5)). A container with Python pays
 * for nothing else, unless the name does not tell the version. Then the file tells it. A program that only
 * resembles CPython fails in the builder, and the container starts cold. */
#include "warm/interpreter.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/str.h"
#include "warm/root_view.h"

#define MINOR_MIN 9
#define MINOR_MAX 15

#if defined(__x86_64__)
#define OWN_MACHINE  EM_X86_64
#define GLIBC_LOADER "ld-linux-x86-64.so.2"
#elif defined(__aarch64__)
#define OWN_MACHINE  EM_AARCH64
#define GLIBC_LOADER "ld-linux-aarch64.so.1"
#else
#define OWN_MACHINE  EM_NONE
#define GLIBC_LOADER ""
#endif

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Parse the N of "python3.N"; nothing may follow it. */
static bool minor_of(const char *name, unsigned *minor)
{
    uint64_t value;
    const char *digits = str_after(name, "python3.");
    if (digits == NULL || str_to_u64(digits, 999, &value) < 0)
        return false;
    *minor = (unsigned)value;
    return true;
}

bool interpreter_is_named_so(const char *argv0)
{
    unsigned minor;
    const char *name = base_name(argv0);
    return str_eq(name, "python") || str_eq(name, "python3") || minor_of(name, &minor);
}

/* Open an executable program at this path; -1 if there is none. */
static int open_program(const struct root_view *view, const char *path)
{
    struct stat st;
    cleanup_fd int fd = root_view_open(view, path, O_PATH);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 0111) == 0)
        return -1;
    return fd_steal(&fd);
}

/* Search like execvp(3): each directory of the search path in turn. */
static int search(struct arena *a, const struct root_view *view, const char *argv0, const char *search_path,
                  const char *cwd, const char **program)
{
    if (strchr(argv0, '/') != NULL) {
        *program = path_clean(a, path_join(a, cwd, argv0));
        return open_program(view, *program);
    }
    for (const char *p = search_path; p != NULL; p = strchr(p, ':'), p += p != NULL) {
        const char *entry = arena_strndup(a, p, strcspn(p, ":"));
        *program = path_clean(a, path_join(a, path_join(a, cwd, entry), argv0));
        int fd = open_program(view, *program);
        if (fd >= 0)
            return fd;
    }
    return -1;
}

/* Return the name of the file itself, at the end of all links. */
static bool resolved_name(int fd, char buffer[static PATH_MAX])
{
    char self[64];
    snprintf(self, sizeof(self), "self/fd/%d", fd);
    int proc = proc_root(NULL);
    ssize_t n = proc < 0 ? -1 : readlinkat(proc, self, buffer, PATH_MAX - 1);
    if (n < 0)
        return false;
    buffer[n] = '\0';
    return true;
}

/* An executable file, and what its dynamic section says. */
struct program {
    int fd;
    size_t segment_count, entry_count;
    Elf64_Phdr segments[32];
    Elf64_Dyn entries[128];
};

/* Read a dynamic program of this machine. */
static bool read_program(int fd, struct program *out)
{
    Elf64_Ehdr header;
    *out = (struct program){.fd = fd};
    if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_machine != OWN_MACHINE || header.e_phentsize != sizeof(Elf64_Phdr))
        return false;
    const size_t count = header.e_phnum;
    if (count > sizeof(out->segments) / sizeof(out->segments[0]) ||
        pread(fd, out->segments, count * sizeof(out->segments[0]), (off_t)header.e_phoff) !=
            (ssize_t)(count * sizeof(out->segments[0])))
        return false;
    out->segment_count = count;
    return true;
}

/* Return the loader that the program requests (PT_INTERP), or NULL. */
static const char *loader_of(const struct program *p, char *buffer, size_t size)
{
    for (size_t i = 0; i < p->segment_count; i++) {
        if (p->segments[i].p_type != PT_INTERP || p->segments[i].p_filesz >= size)
            continue;
        ssize_t n = pread(p->fd, buffer, p->segments[i].p_filesz, (off_t)p->segments[i].p_offset);
        buffer[n > 0 ? n : 0] = '\0';
        return base_name(buffer);
    }
    return NULL;
}

/* Read up to `size` bytes at an address of the program. Return their number. */
static size_t read_some(const struct program *p, uint64_t address, void *out, size_t size)
{
    for (size_t i = 0; i < p->segment_count; i++) {
        const Elf64_Phdr *h = &p->segments[i];
        if (h->p_type != PT_LOAD || address - h->p_vaddr >= h->p_filesz)
            continue;
        ssize_t n = pread(p->fd, out, size, (off_t)(h->p_offset + (address - h->p_vaddr)));
        return n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static bool read_at(const struct program *p, uint64_t address, void *out, size_t size)
{
    return read_some(p, address, out, size) == size;
}

static void read_dynamic(struct program *p)
{
    for (size_t i = 0; i < p->segment_count; i++) {
        if (p->segments[i].p_type != PT_DYNAMIC)
            continue;
        ssize_t n = pread(p->fd, p->entries, sizeof(p->entries), (off_t)p->segments[i].p_offset);
        p->entry_count = n > 0 ? (size_t)n / sizeof(p->entries[0]) : 0;
    }
    for (size_t i = 0; i < p->entry_count; i++)
        if (p->entries[i].d_tag == DT_NULL)
            p->entry_count = i;
}

static uint64_t entry_of(const struct program *p, int64_t tag)
{
    for (size_t i = 0; i < p->entry_count; i++)
        if (p->entries[i].d_tag == tag)
            return p->entries[i].d_un.d_val;
    return 0;
}

/* Read a string of the string table, or its beginning. */
static void read_name(const struct program *p, uint64_t offset, char *out, size_t size)
{
    out[read_some(p, entry_of(p, DT_STRTAB) + offset, out, size - 1)] = '\0';
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t hash = 5381;
    for (; *name != '\0'; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

/* The names of a bucket that are tried. The linker makes buckets of a few. */
#define BUCKET_MAX 256

/* Find a symbol that the program exports, by the table of DT_GNU_HASH. It has a header, the filter, the
 * buckets, and the hash of each symbol. The lowest bit of a hash marks the end of its bucket. */
static bool find_symbol(const struct program *p, const char *name, Elf64_Sym *out)
{
    struct {
        uint32_t buckets, first, filter_words, shift;
    } header;
    uint64_t table = entry_of(p, DT_GNU_HASH);
    uint32_t hash = gnu_hash(name), index, found;
    if (table == 0 || !read_at(p, table, &header, sizeof(header)) || header.buckets == 0)
        return false;
    const uint64_t buckets = table + sizeof(header) + header.filter_words * sizeof(uint64_t);
    const uint64_t hashes = buckets + header.buckets * sizeof(uint32_t);
    if (!read_at(p, buckets + hash % header.buckets * sizeof(uint32_t), &index, sizeof(index)) ||
        index < header.first)
        return false;
    for (uint32_t end = index + BUCKET_MAX; index < end; index++) {
        char symbol[64];
        if (!read_at(p, hashes + (index - header.first) * sizeof(uint32_t), &found, sizeof(found)))
            return false;
        if ((found | 1) == (hash | 1) &&
            read_at(p, entry_of(p, DT_SYMTAB) + index * sizeof(*out), out, sizeof(*out)) &&
            out->st_shndx != SHN_UNDEF) {
            read_name(p, out->st_name, symbol, sizeof(symbol));
            if (str_eq(symbol, name))
                return true;
        }
        if ((found & 1) != 0)
            return false;
    }
    return false;
}

#define FREE_THREADED "free-threaded Python is not supported"

/* Find the version by the name of a library that the program needs: libpython3.N.so, with the letter t for
 * free-threaded builds. */
static const char *version_by_library(const struct program *p, unsigned *minor)
{
    for (size_t i = 0; i < p->entry_count; i++) {
        char name[64], *end;
        if (p->entries[i].d_tag != DT_NEEDED)
            continue;
        read_name(p, p->entries[i].d_un.d_val, name, sizeof(name));
        const char *digits = str_after(name, "libpython3.");
        if (digits == NULL)
            continue;
        *minor = (unsigned)strtoul(digits, &end, 10);
        if (str_after(end, "t.so") != NULL)
            return FREE_THREADED;
        if (str_after(end, ".so") == NULL)
            *minor = 0;
    }
    return NULL;
}

/* Find the version by functions and data that the interpreter exports. Py_Version exists since 3.11. */
static const char *version_by_symbols(const struct program *p, unsigned *minor)
{
    Elf64_Sym symbol;
    uint64_t version;
    if (find_symbol(p, "_Py_DecRefShared", &symbol))
        return FREE_THREADED;
    if (find_symbol(p, "Py_Version", &symbol)) {
        if (read_at(p, symbol.st_value, &version, sizeof(version)) && version >> 24 == 3)
            *minor = version >> 16 & 0xff;
    } else if (find_symbol(p, "Py_NewRef", &symbol)) {
        *minor = 10;
    } else if (find_symbol(p, "PyModule_AddType", &symbol)) {
        *minor = 9;
    }
    return NULL;
}

/* Find the version of an interpreter whose name does not tell it, such as a copy (venv --copies). */
static const char *version_of(struct arena *a, struct program *p, const char *path, unsigned *minor)
{
    *minor = 0;
    read_dynamic(p);
    const char *reason = version_by_library(p, minor);
    if (reason == NULL && *minor == 0)
        reason = version_by_symbols(p, minor);
    if (reason == NULL && *minor == 0)
        return arena_printf(a, "'%s' is not CPython 3.%d or later: it exports no function that tells", path,
                            MINOR_MIN);
    return reason;
}

const char *interpreter_privileges(int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return "the interpreter cannot be examined";
    if ((st.st_mode & (S_ISUID | S_ISGID)) != 0)
        return "the interpreter is set-user-ID or set-group-ID, which only execve applies";
    /* A file system without attributes has no capabilities. Any other failure leaves the answer open: in a
     * user namespace, capabilities of another one have no form (EOVERFLOW). */
    if (fgetxattr(fd, "security.capability", NULL, 0) < 0 && (errno == ENODATA || errno == EOPNOTSUPP))
        return NULL;
    return "the interpreter has file capabilities, which only execve applies (getcap shows them)";
}

const char *interpreter_find(struct arena *a, const struct root_view *view, const char *argv0,
                             const char *search_path, const char *cwd, struct interpreter *out)
{
    cleanup_fd int path_only = search(a, view, argv0, search_path, cwd, &out->program);
    out->unseen = path_only < 0;
    if (out->unseen)
        return arena_printf(a, "program '%s' is not visible in the container's root", argv0);
    char path[PATH_MAX], buffer[256];
    struct program program;
    if (!resolved_name(path_only, path))
        return "the program's file cannot be named: /proc cannot be used";
    if (identity_and_device(path_only, &out->identity, &out->device) < 0)
        return arena_printf(a, "'%s' cannot be examined", out->program);
    cleanup_fd int fd = proc_reopen(path_only, O_RDONLY | O_NOCTTY);
    const char *loader =
        fd >= 0 && read_program(fd, &program) ? loader_of(&program, buffer, sizeof(buffer)) : NULL;
    if (loader == NULL)
        return arena_printf(a, "'%s' is not a dynamic program for this machine", out->program);
    if (!str_eq(loader, GLIBC_LOADER))
        return arena_printf(a, "'%s' asks for the loader '%s', which is not glibc's", out->program, loader);
    const char *reason =
        minor_of(base_name(path), &out->minor) ? NULL : version_of(a, &program, out->program, &out->minor);
    if (reason != NULL)
        return reason;
    if (out->minor < MINOR_MIN || out->minor > MINOR_MAX)
        return arena_printf(a, "Python 3.%u is not supported: 3.%d to 3.%d are", out->minor, MINOR_MIN,
                            MINOR_MAX);
    return interpreter_privileges(fd);
}
