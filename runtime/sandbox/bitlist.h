/* Lists of small numbers as the kernel writes them ("0-3,7"): cpus and memory nodes.
 * cpuset(7), List format. */
#ifndef PYSBX_SANDBOX_BITLIST_H
#define PYSBX_SANDBOX_BITLIST_H

#include <stddef.h>

struct arena;

/* Highest number accepted: above the most cpus and nodes that any kernel is built for. */
#define BITLIST_MAX 65535

struct bitlist {
    unsigned long *words; /* in the arena; NULL when the list is empty */
    size_t bits;          /* a multiple of the bits in a word */
};

/* Parse the list; "" is the empty one. 0, -EINVAL (not such a list, or a range that runs backwards) or
 * -ERANGE (above BITLIST_MAX). */
int bitlist_parse(struct arena *a, const char *text, struct bitlist *out);

#endif
