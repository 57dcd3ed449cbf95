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
    struct image_area areas[] = {
        {.start = CODE,
         .end = CODE + 4 * page,
         .prot = PROT_READ | PROT_EXEC,
         .flags = IMAGE_AREA_FILE,
         .file = IMAGE_FILE_AGENT},
        {.start = DATA, .end = DATA + 4 * page, .prot = both},
        {.start = HEAP, .end = HEAP + 16 * page, .prot = both},
        {.start = STACK, .end = STACK + 8 * page, .prot = both, .flags = IMAGE_AREA_STACK},
    };
    struct image_run runs[] = {{.address = HEAP + page, .pages = 2},
                               {.address = STACK + 7 * page, .pages = 1}};
    struct image_write writes[] = {{.address = HEAP, .pages = 3}};
    struct image_file files[] = {{.path = 0}};
    struct image_parts parts = {.areas = areas,
                                .runs = runs,
                                .files = files,
                                .writes = writes,
                                .strings = "/etc/none",
                                .meta = meta,
                                .area_count = 4,
                                .run_count = 2,
                                .write_count = 1,
                                .strings_size = sizeof("/etc/none"),
                                .meta_size = meta_size};
    struct image_header *h = &parts.header;
    image_host_now(&h->host);
    h->descriptor_count = 1;
    h->descriptors[0] = (struct image_descriptor){.fd = 3, .file = IMAGE_FILE_URANDOM};
    h->special_count = 2;
    h->special[0] = (struct image_special){VVAR, VDSO, "[vvar]"};
    h->special[1] = (struct image_special){VDSO, VDSO + 2 * page, "[vdso]"};
    h->thread.rip = CODE + 10;
    h->thread.rsp = STACK + 7 * page + 64;
    h->thread.fs_base = HEAP + page;
    h->thread.tid_address = HEAP + page + 720;
    h->memory = (struct image_memory){.start_code = CODE,
                                      .end_code = CODE + 4 * page,
                                      .start_data = DATA,
                                      .end_data = DATA + page,
                                      .start_brk = HEAP,
                                      .brk = HEAP + 16 * page,
                                      .start_stack = STACK + 7 * page,
                                      .auxv_count = 2};
    struct error error = {0};
    int fd = memfd_create("snapshot", MFD_CLOEXEC);
    if (fd < 0 || image_write(fd, &parts, &error) < 0)
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
    struct image_header header;
    if (*size >= sizeof(header)) {
        memcpy(&header, data, sizeof(header));
        header.magic = IMAGE_MAGIC;
        header.format = IMAGE_VERSION;
        if (header.tables_size >= sizeof(header) && header.tables_size <= *size) {
            memcpy(data, &header, sizeof(header));
            header.checksum = image_checksum(data, header.tables_size);
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
static void use(const struct image *image)
{
    for (size_t i = 0; i < image->run_count; i++) {
        const struct image_run *r = &image->runs[i];
        fuzz_require(image_area_at(image, r->address, r->pages) != NULL);
        fuzz_require(r->offset >= image->map_size && r->offset < image->header->size);
    }
    for (size_t i = 0; i < image->file_count; i++)
        fuzz_require(strlen(image_path(image, &image->files[i])) > 0);
    for (size_t i = 0; i < image->area_count; i++)
        fuzz_require(image->areas[i].start < image->areas[i].end);
    (void)image_write_pages(image);
    (void)image_host_difference(&image->header->host, &image->header->host);
}

/* A complete restore except the jump. */
static void plan(const struct image *image, int file)
{
    static int root = -1;
    struct error error = {0};
    struct restore *restore = NULL;
    char *argv[] = {(char[]){"python3"}, (char[]){"-c"}, (char[]){"pass"}, NULL};
    char *envp[] = {(char[]){"FOO=1"}, NULL};
    if (root < 0)
        root = fuzz_directory();
    struct restore_request request = {.image = image,
                                      .file = file,
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
    struct image image;
    struct arena arena = {0};
    struct manifest *manifest;
    size_t size;
    char *data = take_file(bytes, bytes_size, false, &size);
    int fd = put_file(data, size);
    int ret = image_open(fd, &image, &error);
    fuzz_check_error(ret, &error);
    if (ret == 0) {
        use(&image);
        (void)manifest_open(&arena, image.meta, image.meta_size, &manifest, &error);
        if (restore_unavailable() == NULL)
            plan(&image, fd);
        image_close(&image);
    }
    free(data);
    arena_free(&arena);
}

void fuzz_session(const uint8_t *bytes, size_t bytes_size)
{
    struct error error = {0};
    struct image image = {0};
    char path[64];
    size_t size;
    char *data = take_file(bytes, bytes_size, true, &size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", put_file(data, size));
    cleanup_fd int fd = session_open(path, &image, &error);
    fuzz_check_error(fd, &error);
    if (fd >= 0) {
        use(&image);
        fuzz_require(image.meta_size == sizeof(session_meta) &&
                     memcmp(image.meta, session_meta, sizeof(session_meta)) == 0);
        image_close(&image);
    }
    free(data);
}
