/* Strict number parsing: what strtoul lets pass (signs, blanks, rests) is an error here (CVE-2026-30892
 * class). Texts for messages. */
#include "base/str.h"

#include <errno.h>

#include "base/arena.h"

int str_to_u64(const char *s, uint64_t max, uint64_t *out)
{
    uint64_t v = 0;
    if (*s == '\0')
        return -EINVAL;
    bool range = false;
    for (; *s != '\0'; s++) {
        if (*s < '0' || *s > '9')
            return -EINVAL;
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v) ||
            v > max)
            range = true;
    }
    if (range)
        return -ERANGE;
    *out = v;
    return 0;
}

int str_to_i64(const char *s, int64_t *out)
{
    bool negative = *s == '-';
    uint64_t magnitude;
    int ret = str_to_u64(s + negative, negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX, &magnitude);
    if (ret < 0)
        return ret;
    *out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return 0;
}

int str_to_id(const char *s, uint32_t *out)
{
    uint64_t v;
    int ret = str_to_u64(s, UINT32_MAX - 1, &v);
    if (ret == 0)
        *out = (uint32_t)v;
    return ret;
}

const char *str_printable(struct arena *a, const char *text)
{
    char *copy = arena_strndup(a, text, strnlen(text, 500));
    for (char *p = copy; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            *p = ' ';
    return copy;
}
