/* What is fuzzed: each function takes any bytes, and aborts when the parser breaks its promises. To libFuzzer
 * they go by fuzz.c, over the seeds by test_seeds.c. */
#ifndef PYSBX_TESTS_FUZZ_TARGETS_H
#define PYSBX_TESTS_FUZZ_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/error.h"

typedef void fuzz_function(const uint8_t *data, size_t size);

struct fuzz_target {
    const char *name; /* of the program, and of the directory of its seeds */
    fuzz_function *run;
};

/* All of them; the last has no name. */
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

/* Every failure has a text, every success none. */
static inline void fuzz_check_error(int ret, const struct error *error)
{
    fuzz_require((ret < 0) == (error->text[0] != '\0'));
}

/* The bytes as a string, in memory that ends with its NUL: a sanitizer sees the first byte read beyond it. To
 * be freed. */
char *fuzz_text(const uint8_t *data, size_t size);

/* A new directory, in memory where there is /dev/shm, as a descriptor; all of them go with fuzz_clean_up. */
int fuzz_directory(void);
void fuzz_clean_up(void);

/* Takes numbers from the bytes; behind their end there are zeros. */
struct fuzz_input {
    const uint8_t *data;
    size_t size;
};
uint64_t fuzz_take(struct fuzz_input *input, size_t bytes);

#endif
