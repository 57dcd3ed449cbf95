/* Run every seed through its fuzz target, so that findings are tested without a fuzzer. The seeds of a target
 * are an archive of tests/fuzz/add-seed: POSIX.1-2017, pax, "ustar Interchange Format". */
#include <fcntl.h>

#include "../unit/unit.h"
#include "base/io.h"
#include "targets.h"

enum { BLOCK = 512, SIZE_OFFSET = 124, SIZE_DIGITS = 12, MAX_ARCHIVE = 16 << 20 };

static void run_seed(const char *data, size_t size, fuzz_function *run)
{
    /* A copy of the exact size, so that a sanitizer detects the first byte read beyond it. */
    uint8_t *exact = malloc(size + (size == 0));
    if (exact == NULL)
        bail_out("out of memory");
    memcpy(exact, data, size);
    run(exact, size);
    free(exact);
}

/* Run the members of an archive, and return their number. */
static int run_archive(const struct fuzz_target *target, const char *archive, size_t length)
{
    int count = 0;
    for (size_t at = 0; at + BLOCK <= length && archive[at] != '\0'; count++) {
        const char *header = archive + at;
        char digits[SIZE_DIGITS + 1] = "";
        memcpy(digits, header + SIZE_OFFSET, SIZE_DIGITS);
        size_t size = strtoul(digits, NULL, 8);
        if (size > length - at - BLOCK)
            bail_out("%s.tar: '%.100s' is not complete", target->name, header);
        run_seed(header + BLOCK, size, target->run);
        ok(true, "%s/%.100s", target->name, header);
        at += BLOCK + (size + BLOCK - 1) / BLOCK * BLOCK;
    }
    return count;
}

int main(void)
{
    for (const struct fuzz_target *target = fuzz_targets; target->name != NULL; target++) {
        struct arena arena = {0};
        char path[512], *archive;
        size_t length;
        snprintf(path, sizeof(path), "tests/fuzz/seeds/%s.tar", target->name);
        if (io_read_file_at(&arena, AT_FDCWD, path, MAX_ARCHIVE, &archive, &length) != 0 ||
            run_archive(target, archive, length) == 0)
            bail_out("%s holds no seeds: run from the top of the source", path);
        arena_free(&arena);
    }
    fuzz_clean_up();
    return done_testing();
}
