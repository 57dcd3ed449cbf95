/* Recognise the interpreter by its name and the head of the ELF file (elf(5)). A container with Python pays
 * for nothing else. A program that only resembles CPython fails in the builder, and the container starts
 * cold. */
#include "warm/interpreter.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
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

/* Return the loader that the program requests (PT_INTERP), or NULL for anything but a dynamic program of this
 * machine. */
static const char *loader_of(int fd, char *buffer, size_t size)
{
    Elf64_Ehdr header;
    if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_machine != OWN_MACHINE || header.e_phentsize != sizeof(Elf64_Phdr))
        return NULL;
    Elf64_Phdr segments[32];
    size_t count = header.e_phnum;
    if (count > sizeof(segments) / sizeof(segments[0]) ||
        pread(fd, segments, count * sizeof(segments[0]), (off_t)header.e_phoff) !=
            (ssize_t)(count * sizeof(segments[0])))
        return NULL;
    for (size_t i = 0; i < count; i++) {
        if (segments[i].p_type != PT_INTERP || segments[i].p_filesz >= size)
            continue;
        ssize_t n = pread(fd, buffer, segments[i].p_filesz, (off_t)segments[i].p_offset);
        buffer[n > 0 ? n : 0] = '\0';
        return base_name(buffer);
    }
    return NULL;
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
    char path[PATH_MAX];
    if (!resolved_name(path_only, path))
        return "the program's file cannot be named: /proc cannot be used";
    if (!minor_of(base_name(path), &out->minor))
        return arena_printf(a, "'%s' is '%s', whose name is not python3.N", out->program, base_name(path));
    if (out->minor < MINOR_MIN || out->minor > MINOR_MAX)
        return arena_printf(a, "Python 3.%u is not supported: 3.%d to 3.%d are", out->minor, MINOR_MIN,
                            MINOR_MAX);
    if (identity_and_device(path_only, &out->identity, &out->device) < 0)
        return arena_printf(a, "'%s' cannot be examined", out->program);
    char buffer[256];
    cleanup_fd int fd = proc_reopen(path_only, O_RDONLY | O_NOCTTY);
    const char *loader = fd >= 0 ? loader_of(fd, buffer, sizeof(buffer)) : NULL;
    if (loader == NULL)
        return arena_printf(a, "'%s' is not a dynamic program for this machine", out->program);
    if (!str_eq(loader, GLIBC_LOADER))
        return arena_printf(a, "'%s' asks for the loader '%s', which is not glibc's", out->program, loader);
    return interpreter_privileges(fd);
}
