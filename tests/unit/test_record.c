/* The state record as a process finds it that another has cut off: lines without an end, no lines at all. */
#include <fcntl.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/io.h"
#include "container/record.h"
#include "unit.h"

#define WHOLE "id box\noci-version 1.0.2\nbundle /b\ncreated now\n"

static const struct {
    const char *name, *text;
    bool good;
    size_t annotations;
} samples[] = {
    {"a whole record", WHOLE "annotation a\nvalue b\n", true, 1},
    {"the last line has no newline", WHOLE "annotation a\nvalue b", true, 1},
    {"only an annotation without a newline", "annotation a", false, 0},
    {"one line without a newline", "id box", false, 0},
    {"a word without a newline", "id", false, 0},
    {"nothing", "", false, 0},
    {"only a newline", "\n", false, 0},
};

int main(void)
{
    char directory[] = "/tmp/test_record.XXXXXX";
    if (mkdtemp(directory) == NULL)
        return 1;
    int fd = open(directory, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        struct arena a = {0};
        struct error err = {0};
        struct record record;
        is_int(io_replace_file_at(fd, "state", samples[i].text, strlen(samples[i].text), 0600), 0,
               "%s: written", samples[i].name);
        int ret = record_read(&a, fd, &record, &err);
        ok((ret == 0) == samples[i].good, "%s: %s", samples[i].name, samples[i].good ? "read" : "refused");
        if (ret == 0)
            is_int((int64_t)record.annotations.count, (int64_t)samples[i].annotations, "%s: annotations",
                   samples[i].name);
        arena_free(&a);
    }
    unlinkat(fd, "state", 0);
    close(fd);
    rmdir(directory);
    return done_testing();
}
