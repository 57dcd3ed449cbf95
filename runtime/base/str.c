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

size_t str_utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80)
        return 1;
    size_t n = s[0] >= 0xf0 && s[0] <= 0xf4 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc2 ? 2 : 0;
    if (s[0] > 0xf4)
        return 0;
    /* This does not read beyond the end of a string that ends within a character: '\0' is no continuation
     * byte. */
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

size_t str_hidden(const char *s, unsigned *code)
{
    const unsigned char *u = (const unsigned char *)s;
    size_t length = str_utf8_length(s);
    unsigned c = *code = u[0];
    if (length == 0)
        return 1;
    if (length == 1)
        return (c < ' ' && c != '\0') || c == 0x7f;
    if (length == 2) {
        *code = (c & 0x1f) << 6 | (u[1] & 0x3fU);
        return *code <= 0x9f || *code == 0x061c ? 2 : 0;
    }
    if (length > 3)
        return 0;
    *code = c = (c & 0xf) << 12 | (u[1] & 0x3fU) << 6 | (u[2] & 0x3fU);
    bool bidirectional =
        c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
    return bidirectional ? 3 : 0;
}

void str_escape_hidden(char *out, size_t size, const char *s)
{
    size_t used = 0;
    while (*s != '\0') {
        unsigned code;
        size_t hidden = str_hidden(s, &code);
        size_t length = hidden > 0 ? hidden : str_utf8_length(s);
        size_t needed = hidden == 0 ? length : hidden == 1 ? 4 : 6;
        if (used + needed >= size)
            break;
        if (hidden > 0)
            snprintf(out + used, size - used, hidden == 1 ? "\\x%02x" : "\\u%04x", code);
        else
            memcpy(out + used, s, length);
        used += needed;
        s += length;
    }
    out[used] = '\0';
}

const char *str_escaped(struct arena *a, const char *text)
{
    size_t size = STR_ESCAPED_MAX(strlen(text));
    char *out = ARENA_ARRAY(a, size, char);
    str_escape_hidden(out, size, text);
    return out;
}

const char *str_printable(struct arena *a, const char *text)
{
    return str_escaped(a, arena_strndup(a, text, strnlen(text, 500)));
}
