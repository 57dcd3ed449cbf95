/* The agent's knowledge of particular libraries, for its C code. packages.py has the table for its Python
 * code. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Libraries that handle fork(2) themselves, so it may leave their threads behind. Each is a word in the file
 * name of the library whose function the thread runs. */
static const char *const fork_aware[] = {
    /* OpenBLAS ends its threads before a fork, and starts them again when it needs some.
     * Source: openblas_fork_handler() in https://github.com/OpenMathLib/OpenBLAS, driver/others/memory.c */
    "openblas",
};

/* The state of numpy's Mersenne Twister. Its capsule starts with a pointer to this structure. words_of() and
 * fill_words() read and fill it, because numpy's own functions touch 80 pages for that.
 * Source: mt19937_state in https://github.com/numpy/numpy, numpy/random/src/mt19937/mt19937.h, since
 * numpy 1.17 */
#define TWISTER_WORDS 624
struct numpy_twister {
    uint32_t words[TWISTER_WORDS];
    int position; /* in them; at the end, the next draw first makes other words of them */
};
