/* Lists of small numbers in the kernel's format ("0-3,7"), for CPUs and memory nodes. cpuset(7), List format.
 */
#pragma once

#include <stddef.h>

struct arena;

/* The highest number accepted. No kernel is built for more CPUs or nodes. */
#define BITLIST_MAX 65535

struct bitlist {
    unsigned long *words; /* in the arena; NULL when the list is empty */
    size_t bits;          /* a multiple of the bits in a word */
};

/* Parse a list into the arena. An empty string is the empty list. Return 0, -EINVAL (not a list, or a range
 * that runs backwards) or -ERANGE (a number above BITLIST_MAX). */
int bitlist_parse(struct arena *a, const char *text, struct bitlist *out);
