/* Strings: strict parsing of numbers, small tests, escapes for messages. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct arena;

/* Parse the whole string as a decimal number of at most `max`: no sign, no space, no other character. 0,
 * -EINVAL (not a number) or -ERANGE. */
int str_to_u64(const char *s, uint64_t max, uint64_t *out);
/* The same for the whole range of int64_t, with an optional "-". */
int str_to_i64(const char *s, int64_t *out);

/* Parse a user or group id: 0 to 4294967294. (uid_t)-1 means "unchanged" to the kernel and is refused. The
 * same errors. */
int str_to_id(const char *s, uint32_t *out);

/* Return whether the strings are equal. NULL equals only NULL. */
static inline bool str_eq(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Return the rest of s after the prefix, or NULL if s does not begin with it. */
static inline const char *str_after(const char *s, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(s, prefix, n) == 0 ? s + n : NULL;
}

/* Undo the octal escapes (\040 for a blank) of /proc/PID/mountinfo, in place. */
void str_unescape_octal(char *s);

/* Return the length of the valid UTF-8 character at `text`, or 0 if there is none. The end of a string has 1.
 */
size_t str_utf8_length(const char *text);

/* Return the length of the character at `s`, and set *code, if the character is hidden: a terminal obeys it,
 * or shows the text after it in another order. Return 0 for any other. C0 controls with newline and tab, DEL,
 * C1 controls, and bytes that are not UTF-8 are hidden. The bidirectional controls of Unicode Standard Annex
 * 9 are, too: U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069. */
size_t str_hidden(const char *s, unsigned *code);

/* Copy a string to `out`, a buffer of `size` bytes, with each such byte as "\xXX" and each longer character
 * as "\uXXXX". The copy is cut off if it does not fit. A string that is escaped already stays the same. */
void str_escape_hidden(char *out, size_t size, const char *s);

/* Bytes that str_escape_hidden needs for a string of `n` bytes: one byte becomes four. */
#define STR_ESCAPED_MAX(n) (4 * (n) + 1)

/* Return the string with such escapes, in the arena: for a table. log.c does it for messages. */
const char *str_escaped(struct arena *a, const char *text);

/* Return at most 500 bytes of a container's string with such escapes, in the arena. */
const char *str_printable(struct arena *a, const char *text);
