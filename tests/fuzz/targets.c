/* The table of targets, and functions that several of them need. */
#include "targets.h"

#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <unistd.h>

#define MAX_DIRECTORIES 8

const struct fuzz_target fuzz_targets[] = {
    {"spec", fuzz_spec},           {"process", fuzz_process},
    {"resources", fuzz_resources}, {"seccomp", fuzz_seccomp},
    {"landlock", fuzz_landlock},   {"warm-config", fuzz_warm_config},
    {"policy", fuzz_policy},       {"record", fuzz_record},
    {"passwd", fuzz_passwd},       {"proc", fuzz_proc},
    {"sync", fuzz_sync},           {"report", fuzz_report},
    {"manifest", fuzz_manifest},   {"interpreter", fuzz_interpreter},
#ifdef __x86_64__ /* like runtime/warm/dump*.c */
    {"image", fuzz_image},         {"session", fuzz_session},
    {"smaps", fuzz_smaps},         {"pagemap", fuzz_pagemap},
    {"proc-dump", fuzz_proc_dump},
#endif
    {"terminal", fuzz_terminal},   {NULL, NULL},
};

char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL)
        abort();
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

uint64_t fuzz_take(struct fuzz_input *input, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes && input->size > 0; i++, input->data++, input->size--)
        value |= (uint64_t)*input->data << (8 * i);
    return value;
}

static char directories[MAX_DIRECTORIES][32];
static size_t directory_count;
static pid_t owner;

int fuzz_directory(void)
{
    if (directory_count == MAX_DIRECTORIES)
        abort();
    char *path = directories[directory_count++];
    const char *above = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(path, sizeof(directories[0]), "%s/pysbx-fuzz.XXXXXX", above);
    owner = getpid();
    int fd = mkdtemp(path) != NULL ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0)
        abort();
    return fd;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    (void)st, (void)kind, (void)place;
    return remove(path);
}

void fuzz_clean_up(void)
{
    for (size_t i = 0; owner == getpid() && i < directory_count; i++)
        (void)nftw(directories[i], remove_one, 8, FTW_DEPTH | FTW_PHYS);
    directory_count = 0;
}
