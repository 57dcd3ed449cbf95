/* The file of a snapshot with any content that a disk may have, and a correct checksum. */
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "targets.h"
#include "warm/manifest/manifest.h"
#include "warm/restore/restore.h"
#include "warm/session.h"
#include "warm/snapshot/snapshot.h"

#define CODE  0x400000ULL
#define DATA  0x500000ULL
#define HEAP  0x600000ULL
#define STACK 0x7ffd00000000ULL
#define VVAR  0x7ffe00000000ULL
#define VDSO  0x7ffe00004000ULL

static const char session_meta[] = "pysbx: a session, version 1";

/* Write a valid snapshot to a new file. */
static int make_base(const void *meta, size_t meta_size)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint32_t both = PROT_READ | PROT_WRITE;
    struct snapshot_vma vmas[] = {
        {.start = CODE,
         .end = CODE + 4 * page,
         .prot = PROT_READ | PROT_EXEC,
         .flags = SNAPSHOT_VMA_FILE,
         .file = SNAPSHOT_FILE_AGENT},
        {.start = DATA, .end = DATA + 4 * page, .prot = both},
        {.start = HEAP, .end = HEAP + 16 * page, .prot = both},
        {.start = STACK, .end = STACK + 8 * page, .prot = both, .flags = SNAPSHOT_VMA_STACK},
    };
    struct snapshot_extent extents[] = {
        {.address = HEAP + page, .pages = 2},
        {.address = HEAP + 4 * page, .pages = 4, .offset = 4 * page, .of_base = 1},
        {.address = STACK + 7 * page, .pages = 1}};
    struct snapshot_patch patches[] = {{.address = HEAP + 5 * page, .pages = 1}};
    struct snapshot_write writes[] = {{.address = HEAP, .pages = 3}};
    struct snapshot_file files[] = {{.path = 0}};
    struct snapshot_parts parts = {.vmas = vmas,
                                   .extents = extents,
                                   .patches = patches,
                                   .files = files,
                                   .writes = writes,
                                   .strings = "/etc/none",
                                   .meta = meta,
                                   .vma_count = 4,
                                   .extent_count = 3,
                                   .patch_count = 1,
                                   .write_count = 1,
                                   .strings_size = sizeof("/etc/none"),
                                   .meta_size = meta_size};
    struct snapshot_header *h = &parts.header;
    snapshot_host_now(&h->host);
    h->base = (struct snapshot_base){.name = "base", .size = 8 * page};
    h->descriptor_count = 1;
    h->descriptors[0] = (struct snapshot_descriptor){.fd = 3, .file = SNAPSHOT_FILE_URANDOM};
    h->vdso_count = 2;
    h->vdso[0] = (struct snapshot_vdso){VVAR, VDSO, "[vvar]"};
    h->vdso[1] = (struct snapshot_vdso){VDSO, VDSO + 2 * page, "[vdso]"};
    h->thread.rip = CODE + 10;
    h->thread.rsp = STACK + 7 * page + 64;
    h->thread.fs_base = HEAP + page;
    h->thread.tid_address = HEAP + page + 720;
    h->memory = (struct snapshot_memory){.start_code = CODE,
                                         .end_code = CODE + 4 * page,
                                         .start_data = DATA,
                                         .end_data = DATA + page,
                                         .start_brk = HEAP,
                                         .brk = HEAP + 16 * page,
                                         .start_stack = STACK + 7 * page,
                                         .auxv_count = 2};
    struct error error = {0};
    int fd = memfd_create("snapshot", MFD_CLOEXEC);
    if (fd < 0 || snapshot_write(fd, &parts, &error) < 0)
        abort();
    return fd;
}

/* Of a session, or with another content instead of a manifest. */
static const char *base(bool session, size_t *size)
{
    static char *contents[2];
    static size_t sizes[2];
    if (contents[session] == NULL) {
        struct stat st;
        cleanup_fd int fd = make_base(session ? session_meta : "meta", session ? sizeof(session_meta) : 5);
        if (fstat(fd, &st) < 0 || (contents[session] = malloc((size_t)st.st_size)) == NULL ||
            pread(fd, contents[session], (size_t)st.st_size, 0) != st.st_size)
            abort();
        sizes[session] = (size_t)st.st_size;
    }
    *size = sizes[session];
    return contents[session];
}

/* "R" and a file; or "P" and changes of a valid one: an offset, a width in bytes, a value. Then the
 * checksum is corrected. */
static char *take_file(const uint8_t *bytes, size_t bytes_size, bool session, size_t *size)
{
    struct fuzz_input input = {bytes, bytes_size};
    char *data;
    if (fuzz_take(&input, 1) == 'R') {
        *size = input.size;
        data = fuzz_text(input.data, input.size);
    } else {
        const char *content = base(session, size);
        data = fuzz_text((const uint8_t *)content, *size);
        while (input.size > 0) {
            size_t place = (size_t)fuzz_take(&input, 2) % *size, width = fuzz_take(&input, 1) % 8 + 1;
            uint64_t value = fuzz_take(&input, width);
            memcpy(data + place, &value, width < *size - place ? width : *size - place);
        }
    }
    struct snapshot_header header;
    if (*size >= sizeof(header)) {
        memcpy(&header, data, sizeof(header));
        header.magic = SNAPSHOT_MAGIC;
        header.format = SNAPSHOT_VERSION;
        if (header.tables_size >= sizeof(header) && header.tables_size <= *size) {
            memcpy(data, &header, sizeof(header));
            header.checksum = snapshot_checksum(data, header.tables_size);
        }
        memcpy(data, &header, sizeof(header));
    }
    return data;
}

/* Return the descriptor of a file with these bytes that belongs only to the caller. */
static int put_file(const char *data, size_t size)
{
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("snapshot", MFD_CLOEXEC);
    if (fd < 0 || fchmod(fd, 0600) < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    return fd;
}

/* Everything that a snapshot names is readable in it. */
static void use(const struct snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->extent_count; i++) {
        const struct snapshot_extent *r = &snapshot->extents[i];
        fuzz_require(snapshot_vma_at(snapshot, r->address, r->pages) != NULL);
        fuzz_require(r->of_base != 0 || r->offset >= snapshot->map_size);
        fuzz_require(r->offset < (r->of_base != 0 ? snapshot->header->base.size : snapshot->header->size));
    }
    for (size_t i = 0; i < snapshot->patch_count; i++) {
        const struct snapshot_patch *p = &snapshot->patches[i];
        const struct snapshot_vma *a = snapshot_vma_at(snapshot, p->address, p->pages);
        fuzz_require(a != NULL && (a->prot & PROT_WRITE) != 0);
        fuzz_require(p->offset >= snapshot->map_size && p->offset < snapshot->header->size);
    }
    for (size_t i = 0; i < snapshot->file_count; i++)
        fuzz_require(strlen(snapshot_path(snapshot, &snapshot->files[i])) > 0);
    for (size_t i = 0; i < snapshot->vma_count; i++)
        fuzz_require(snapshot->vmas[i].start < snapshot->vmas[i].end);
    (void)snapshot_write_pages(snapshot);
    (void)snapshot_host_difference(&snapshot->header->host, &snapshot->header->host);
}

/* A complete restore except the jump. */
static void plan(const struct snapshot *snapshot, int file)
{
    static int root = -1;
    struct error error = {0};
    struct restore *restore = NULL;
    char *argv[] = {(char[]){"python3"}, (char[]){"-c"}, (char[]){"pass"}, NULL};
    char *envp[] = {(char[]){"FOO=1"}, NULL};
    if (root < 0)
        root = fuzz_directory();
    struct restore_request request = {.snapshot = snapshot,
                                      .file = file,
                                      .base = file,
                                      .root = root,
                                      .agent = file,
                                      .comm = "python3",
                                      .argv = argv,
                                      .envp = envp,
                                      .prefetch = true,
                                      .finish = {.close_from = 3}};
    fuzz_check_error(restore_prepare(&request, &restore, &error), &error);
    restore_free(restore);
}

void fuzz_image(const uint8_t *bytes, size_t bytes_size)
{
    struct error error = {0};
    struct snapshot snapshot;
    struct arena arena = {0};
    struct manifest *manifest;
    size_t size;
    char *data = take_file(bytes, bytes_size, false, &size);
    int fd = put_file(data, size);
    int ret = snapshot_open(fd, &snapshot, &error);
    fuzz_check_error(ret, &error);
    if (ret == 0) {
        use(&snapshot);
        (void)manifest_open(&arena, snapshot.meta, snapshot.meta_size, &manifest, &error);
        if (restore_unavailable() == NULL)
            plan(&snapshot, fd);
        snapshot_close(&snapshot);
    }
    free(data);
    arena_free(&arena);
}

void fuzz_session(const uint8_t *bytes, size_t bytes_size)
{
    struct error error = {0};
    struct snapshot snapshot = {0};
    char path[64];
    size_t size;
    char *data = take_file(bytes, bytes_size, true, &size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", put_file(data, size));
    cleanup_fd int fd = session_open(path, &snapshot, &error);
    fuzz_check_error(fd, &error);
    if (fd >= 0) {
        use(&snapshot);
        fuzz_require(snapshot.meta_size == sizeof(session_meta) &&
                     memcmp(snapshot.meta, session_meta, sizeof(session_meta)) == 0);
        snapshot_close(&snapshot);
    }
    free(data);
}
