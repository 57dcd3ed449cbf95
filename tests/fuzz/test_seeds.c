/* Run every seed through its fuzz target, so that findings are tested without a fuzzer. */
#include <dirent.h>
#include <fcntl.h>

#include "../unit/unit.h"
#include "base/io.h"
#include "targets.h"

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void run_seed(const char *path, fuzz_function *run)
{
    struct arena arena = {0};
    char *data;
    size_t size;
    bool read = io_read_file_at(&arena, AT_FDCWD, path, 1 << 20, &data, &size) == 0;
    if (read) {
        /* A copy of the exact size, so that a sanitizer detects the first byte read beyond it. */
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
    for (const struct fuzz_target *target = fuzz_targets; target->name != NULL; target++) {
        char path[512];
        struct dirent **entries;
        snprintf(path, sizeof(path), "tests/fuzz/seeds/%s", target->name);
        int count = scandir(path, &entries, visible, alphasort);
        if (count <= 0)
            bail_out("%s holds no seeds: run from the top of the source", path);
        for (int j = 0; j < count; j++) {
            snprintf(path, sizeof(path), "tests/fuzz/seeds/%s/%s", target->name, entries[j]->d_name);
            run_seed(path, target->run);
            free(entries[j]);
        }
        free(entries);
    }
    fuzz_clean_up();
    return done_testing();
}
