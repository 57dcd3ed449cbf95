/* Every seed through its fuzz target, so that what a fuzzer once found is proven without one. */
#include <dirent.h>
#include <fcntl.h>

#include "../unit/unit.h"
#include "base/io.h"
#include "targets.h"

static const struct {
    const char *seeds;
    void (*run)(const uint8_t *data, size_t size);
} targets[] = {
    {"spec", fuzz_spec},       {"process", fuzz_process}, {"resources", fuzz_resources},
    {"seccomp", fuzz_seccomp}, {"policy", fuzz_policy},
};

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void run_seed(const char *path, void (*run)(const uint8_t *data, size_t size))
{
    struct arena arena = {0};
    char *data;
    size_t size;
    bool read = io_read_file_at(&arena, AT_FDCWD, path, 1 << 20, &data, &size) == 0;
    if (read) {
        /* A copy of the exact size: a sanitizer sees the first byte read beyond it. */
        uint8_t *exact = malloc(size + (size == 0));
        if (exact == NULL)
            bail_out("out of memory");
        memcpy(exact, data, size);
        run(exact, size);
        free(exact);
    }
    ok(read, "%s", path);
    arena_free(&arena);
}

int main(void)
{
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        char path[512];
        struct dirent **entries;
        snprintf(path, sizeof(path), "tests/fuzz/seeds/%s", targets[i].seeds);
        int count = scandir(path, &entries, visible, alphasort);
        if (count <= 0)
            bail_out("%s holds no seeds: run from the top of the source", path);
        for (int j = 0; j < count; j++) {
            snprintf(path, sizeof(path), "tests/fuzz/seeds/%s/%s", targets[i].seeds, entries[j]->d_name);
            run_seed(path, targets[i].run);
            free(entries[j]);
        }
        free(entries);
    }
    return done_testing();
}
