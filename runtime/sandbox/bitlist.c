/* Parse the kernel's list format. */
#include "sandbox/bitlist.h"

#include <errno.h>
#include <limits.h>

#include "base/arena.h"

#define WORD_BITS (sizeof(unsigned long) * CHAR_BIT)

static int bitlist_parse_number(const char **p, unsigned *out)
{
    if (**p < '0' || **p > '9')
        return -EINVAL;
    unsigned value = 0;
    for (; **p >= '0' && **p <= '9'; (*p)++) {
        value = value * 10 + (unsigned)(**p - '0');
        if (value > BITLIST_MAX)
            return -ERANGE;
    }
    *out = value;
    return 0;
}

/* Read one "N" or "N-M" and the comma after it. A comma must be followed by another range. */
static int bitlist_parse_range(const char **p, unsigned *first, unsigned *last)
{
    int ret = bitlist_parse_number(p, first);
    if (ret < 0)
        return ret;
    *last = *first;
    if (**p == '-') {
        (*p)++;
        ret = bitlist_parse_number(p, last);
        if (ret < 0)
            return ret;
        if (*last < *first)
            return -EINVAL;
    }
    if (**p == ',' && (*p)[1] != '\0')
        (*p)++;
    else if (**p != '\0')
        return -EINVAL;
    return 0;
}

int bitlist_parse(struct arena *a, const char *text, struct bitlist *out)
{
    *out = (struct bitlist){0};
    unsigned highest = 0, first, last;
    for (const char *p = text; *p != '\0';) {
        int ret = bitlist_parse_range(&p, &first, &last);
        if (ret < 0)
            return ret;
        if (last > highest)
            highest = last;
    }
    if (text[0] == '\0')
        return 0;
    size_t words = highest / WORD_BITS + 1;
    out->words = ARENA_ARRAY(a, words, unsigned long);
    out->bits = words * WORD_BITS;
    for (const char *p = text; *p != '\0' && bitlist_parse_range(&p, &first, &last) == 0;)
        for (unsigned n = first; n <= last; n++)
            out->words[n / WORD_BITS] |= 1UL << (n % WORD_BITS);
    return 0;
}
