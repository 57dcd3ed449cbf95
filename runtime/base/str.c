/* Strict parsing of numbers: signs, blanks and trailing characters, which strtoul accepts, are errors here
 * (CVE-2026-30892 class). Escapes for messages. */
#include "base/str.h"

#include <errno.h>
#include <stdio.h>

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
    if (ret < 0)
        return ret;
    *out = (uint32_t)v;
    return 0;
}

void str_unescape_octal(char *s)
{
    char *to = s;
    for (; *s != '\0'; s++) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' &&
            s[3] <= '7') {
            *to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
            s += 3;
        } else {
            *to++ = *s;
        }
    }
    *to = '\0';
}

size_t str_hidden(const char *s, unsigned *code)
{
    const unsigned char *u = (const unsigned char *)s;
    /* This does not read beyond the end of a string that ends within a character: '\0' is no continuation
     * byte. */
    if (u[0] == 0xc2 && u[1] >= 0x80 && u[1] <= 0x9f)
        *code = u[1];
    else if (u[0] == 0xd8 && u[1] == 0x9c)
        *code = 0x061c;
    else if (u[0] == 0xe2 && (u[1] & 0xfe) == 0x80 && (u[2] & 0xc0) == 0x80)
        *code = 0x2000U | (u[1] & 0x3fU) << 6 | (u[2] & 0x3fU);
    else
        return 0;
    if (u[0] != 0xe2)
        return 2;
    bool bidirectional = *code == 0x200e || *code == 0x200f || (*code >= 0x202a && *code <= 0x202e) ||
                         (*code >= 0x2066 && *code <= 0x2069);
    return bidirectional ? 3 : 0;
}

void str_escape_hidden(char *out, size_t size, const char *s)
{
    size_t used = 0;
    while (*s != '\0') {
        unsigned code;
        size_t length = str_hidden(s, &code), needed = length > 0 ? 6 : 1;
        if (used + needed >= size)
            break;
        if (length > 0)
            snprintf(out + used, size - used, "\\u%04x", code);
        else
            out[used] = *s;
        used += needed;
        s += length > 0 ? length : 1;
    }
    out[used] = '\0';
}

const char *str_printable(struct arena *a, const char *text)
{
    char *copy = arena_strndup(a, text, strnlen(text, 500));
    for (char *p = copy; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            *p = ' ';
    size_t size = STR_ESCAPED_MAX(strlen(copy));
    char *out = ARENA_ARRAY(a, size, char);
    str_escape_hidden(out, size, copy);
    return out;
}
