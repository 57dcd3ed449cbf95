/* Fuzz targets: each function accepts any bytes, and aborts if the parser breaks its promises. fuzz.c runs
 * them with libFuzzer, test_seeds.c with the seeds. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/error.h"

typedef void fuzz_function(const uint8_t *data, size_t size);

struct fuzz_target {
    const char *name; /* of the program, and of the archive of its seeds */
    fuzz_function *run;
};

/* All targets. The last one has no name. */
extern const struct fuzz_target fuzz_targets[];

fuzz_function fuzz_spec, fuzz_process, fuzz_resources, fuzz_seccomp; /* target_spec.c */
fuzz_function fuzz_landlock, fuzz_warm_config, fuzz_policy;          /* target_config.c */
fuzz_function fuzz_record, fuzz_passwd, fuzz_proc, fuzz_sync;        /* target_container.c */
fuzz_function fuzz_report, fuzz_manifest, fuzz_interpreter;          /* target_files.c */
fuzz_function fuzz_image, fuzz_session;                              /* target_image.c */
fuzz_function fuzz_smaps, fuzz_pagemap, fuzz_proc_dump;              /* target_dump.c */
fuzz_function fuzz_terminal;                                         /* target_terminal.c */

/* A promise of the parser. */
#define fuzz_require(condition)                                                                              \
    ({                                                                                                       \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: not kept: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                                         \
        }                                                                                                    \
    })

/* Assert that every failure has a message, and no success has one. */
static inline void fuzz_check_error(int ret, const struct error *error)
{
    fuzz_require((ret < 0) == (error->text[0] != '\0'));
}

/* Return the bytes as a string, in memory that ends with its NUL, so that a sanitizer detects the first
 * byte read beyond it. The caller frees it. */
char *fuzz_text(const uint8_t *data, size_t size);

/* Return a descriptor of a new directory, in memory if there is /dev/shm. fuzz_clean_up removes all of
 * them. */
int fuzz_directory(void);
void fuzz_clean_up(void);

/* Read numbers from the bytes. After the end there are zeros. */
struct fuzz_input {
    const uint8_t *data;
    size_t size;
};
uint64_t fuzz_take(struct fuzz_input *input, size_t bytes);
