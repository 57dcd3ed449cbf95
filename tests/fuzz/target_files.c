/* A builder's report of the files that it has read, the manifest made of it, and a program that claims to
 * be Python. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/str.h"
#include "prewarm/builder_report.h"
#include "targets.h"
#include "warm/command_line.h"
#include "warm/interpreter.h"
#include "warm/manifest/format.h"
#include "warm/manifest/manifest.h"
#include "warm/owners.h"
#include "warm/root_view.h"

static char *const environment[] = {(char[]){"FOO=1"}, (char[]){"HOME=/root"}, (char[]){"HOSTNAME=h"}, NULL};

/* A file of this target only: one of the host may change in the meantime, even /dev/null. */
static const char *mounted_file(void)
{
    static char file[PATH_MAX];
    char of_directory[32];
    int dir = fuzz_directory();
    snprintf(of_directory, sizeof(of_directory), "/proc/self/fd/%d", dir);
    ssize_t n = readlink(of_directory, file, sizeof(file) - sizeof("/data"));
    if (n < 0 || io_create_file_at(dir, "data", "data", sizeof("data"), 0644) < 0)
        abort();
    memcpy(file + n, "/data", sizeof("/data"));
    return file;
}

static const struct root_view *container_look(void)
{
    static struct root_view_mount mounts[] = {{"/mnt", NULL, false}, {"/lib/data", NULL, false}};
    static struct root_view view = {.root = -1, .mounts = mounts, .count = 2};
    static const char *const directories[] = {"lib", "lib/json", "mnt", "etc"};
    static const char *const files[] = {"lib/a.py", "lib/b.py", "lib/json/__init__.py", "etc/passwd"};
    if (view.root >= 0)
        return &view;
    view.root = fuzz_directory();
    mounts[1].source = mounted_file();
    for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++)
        if (mkdirat(view.root, directories[i], 0755) < 0)
            abort();
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (io_create_file_at(view.root, files[i], files[i], strlen(files[i]), 0644) < 0)
            abort();
    if (symlinkat("a.py", view.root, "lib/link.py") < 0 || symlinkat("loop", view.root, "loop") < 0)
        abort();
    return &view;
}

/* Build the manifest of a report. It can be opened, and is valid as long as nothing changes. */
static int build(struct arena *a, const char *report, size_t size, void **data, size_t *data_size)
{
    static const char key_text[] = "kernel=6\0program=/bin/python3";
    struct warm_key key = {.text = key_text, .size = sizeof(key_text)};
    static const struct owners owners = {.text = "mapped", .mapped = true};
    struct manifest_source source = {.report = report,
                                     .report_size = size,
                                     .key = &key,
                                     .envp = environment,
                                     .view = container_look(),
                                     .owners = &owners,
                                     .builder = "1.0",
                                     .built = 1,
                                     .began = INT64_MAX};
    struct error error = {0};
    key_name(key.text, key.size, key.name);
    int ret = manifest_build(a, &source, data, data_size, &error);
    fuzz_check_error(ret, &error);
    return ret;
}

/* Every use of a manifest. */
static void use(struct arena *a, const void *data, size_t size, bool built)
{
    struct error error = {0};
    struct manifest *manifest;
    struct manifest_facts facts;
    struct manifest_queue queue = {0};
    int ret = manifest_open(a, data, size, &manifest, &error);
    fuzz_check_error(ret, &error);
    fuzz_require(!built || ret == 0);
    if (ret < 0)
        return;
    manifest_describe(manifest, &facts);
    fuzz_require(facts.key.text[facts.key.size - 1] == '\0' && facts.python != NULL);
    for (size_t i = 0; i < facts.module_count; i++)
        (void)strlen(manifest_module(manifest, i));
    (void)manifest_verify_as_seen(manifest, container_look(), &error);
    ret = manifest_verify(manifest, container_look(), &queue, &error);
    /* The runtime cannot compare a file in a mount from outside. */
    fuzz_require(!built || ret != -ESTALE);
    ret = manifest_check_environment(manifest, environment, &error);
    fuzz_require(!built || ret == 0);
    (void)manifest_check_places(manifest, &error);
    (void)manifest_check_streams(manifest, &error);
    (void)manifest_check_shadow(manifest, container_look(), "/lib", &error);
}

/* The report in pieces: the size and the bytes of each. */
void fuzz_report(const uint8_t *bytes, size_t size)
{
    struct fuzz_input input = {bytes, size};
    struct arena arena = {0};
    struct builder_report_text report = {.data = malloc(size + 1)};
    enum builder_report_state state = BUILDER_REPORT_OPEN;
    void *data;
    size_t data_size;
    while (input.size > 0 && state != BUILDER_REPORT_READY && state != BUILDER_REPORT_FAILED) {
        size_t head = (size_t)fuzz_take(&input, 2), length = head & 0x7fff;
        if (length > input.size)
            length = input.size;
        if (length == 0)
            continue;
        memcpy(report.data + report.size, input.data, length);
        input.data += length;
        input.size -= length;
        state = builder_report_take(&report, length);
        fuzz_require(memchr(report.module, '\0', sizeof(report.module)) != NULL);
        (void)str_printable(&arena, report.module);
    }
    if (state == BUILDER_REPORT_FAILED)
        fuzz_require(str_printable(&arena, builder_report_reason(&report))[0] != '\0');
    /* In the order of the parts: exactly the received bytes. */
    char *exact = (char *)malloc(report.size + 1);
    memcpy(exact, report.data, report.size);
    char *shrunk = realloc(exact, report.size > 0 ? report.size : 1);
    if (state == BUILDER_REPORT_READY && build(&arena, shrunk, report.size, &data, &data_size) == 0)
        use(&arena, data, data_size, true);
    free(shrunk);
    free(report.data);
    arena_free(&arena);
}

/* "R" and a manifest, whose magic number and size are corrected; or "P" and changes of a valid one: an
 * offset, a width in bytes, a value. */
void fuzz_manifest(const uint8_t *bytes, size_t size)
{
    static const char report[] = "v3.11\0f/lib/a.py\0f/lib/b.py\0f/lib/none\0d/lib\0p/etc/passwd\0a/x/y\0"
                                 "l/lib/link.py\0w/tmp\0mjson\0eFOO\0eBAR\0t\0r";
    struct fuzz_input input = {bytes, size};
    struct arena arena = {0};
    size_t room;
    void *data;
    bool raw = fuzz_take(&input, 1) == 'R';
    if (raw) {
        room = input.size;
        data = fuzz_text(input.data, input.size);
    } else if (build(&arena, report, sizeof(report), &data, &room) == 0) {
        data = memcpy(malloc(room), data, room);
        while (input.size > 0) {
            size_t place = (size_t)fuzz_take(&input, 2) % room, width = fuzz_take(&input, 1) % 8 + 1;
            uint64_t value = fuzz_take(&input, width);
            memcpy((char *)data + place, &value, width < room - place ? width : room - place);
        }
    } else {
        abort();
    }
    struct manifest_header *header = data;
    if (room >= sizeof(*header)) {
        header->magic = MANIFEST_MAGIC;
        if (raw)
            header->size = room;
    }
    use(&arena, data, room, false);
    free(data);
    arena_free(&arena);
}

/* The bytes are the program. */
void fuzz_interpreter(const uint8_t *data, size_t size)
{
    static int root = -1, file = -1;
    struct arena arena = {0};
    struct interpreter found;
    if (root < 0) {
        root = fuzz_directory();
        file = openat(root, "python3", O_RDWR | O_CREAT | O_CLOEXEC, 0755);
    }
    if (ftruncate(file, 0) < 0 || pwrite(file, data, size, 0) != (ssize_t)size)
        abort();
    const struct root_view view = {.root = root};
    const char *why = interpreter_find(&arena, &view, "python3", "/bin:/", "/", &found);
    fuzz_require(!found.unseen && (why == NULL || why[0] != '\0'));
    arena_free(&arena);
}
