/* libFuzzer program of one target of targets.h, given as TARGET. What it finds becomes a seed, once mended.
 *
 * clang -std=gnu17 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined -DTARGET=fuzz_process -Iruntime
 *     -o fuzz_process tests/fuzz/fuzz.c runtime/spec/?*.c runtime/base/?*.c -lyajl
 *
 * ./fuzz_process CORPUS tests/fuzz/seeds/process */
#include "targets.h"

#ifndef TARGET
#define TARGET fuzz_spec
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    TARGET(data, size);
    return 0;
}
