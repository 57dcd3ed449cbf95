/* JSON that the runtime writes, by yajl's generator. */
#include "base/json_out.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yajl/yajl_gen.h>

#include "base/io.h"
#include "base/json_memory.h"

struct json_out {
    yajl_gen gen;
    struct json_memory memory;
    bool failed; /* permanently */
    char opened; /* "[" or "{" that is not written yet, so that an empty one is written as "[]" and not over
                    two lines */
};

static bool make_generator(struct json_out *out, bool pretty)
{
    json_memory_init(&out->memory);
    if (setjmp(out->memory.is_short) != 0)
        return false;
    out->gen = yajl_gen_alloc(&out->memory.functions);
    yajl_gen_config(out->gen, yajl_gen_beautify, pretty ? 1 : 0);
    yajl_gen_config(out->gen, yajl_gen_indent_string, "  ");
    return true;
}

struct json_out *json_out_new(bool pretty)
{
    static struct json_out none = {.failed = true};
    struct json_out *out = calloc(1, sizeof(*out));
    if (out != NULL && make_generator(out, pretty))
        return out;
    free(out);
    return &none;
}

void json_out_free(struct json_out *out)
{
    if (out == NULL || out->gen == NULL) /* the static one of json_out_new */
        return;
    yajl_gen_free(out->gen);
    free(out);
}

void json_out_cleanup(struct json_out **out)
{
    json_out_free(*out);
    *out = NULL;
}

/* Call the generator once, unless an earlier call has failed. */
#define GENERATE(out, call)                                                                                  \
    do {                                                                                                     \
        if ((out)->failed)                                                                                   \
            break;                                                                                           \
        if (setjmp((out)->memory.is_short) != 0)                                                             \
            (out)->failed = true;                                                                            \
        else                                                                                                 \
            (out)->failed = (call) != yajl_gen_status_ok;                                                    \
    } while (0)

/* Write the pending bracket, before the first value inside it. */
static void write_opened(struct json_out *out)
{
    char opened = out->opened;
    out->opened = 0;
    if (opened != 0)
        GENERATE(out, opened == '[' ? yajl_gen_array_open(out->gen) : yajl_gen_map_open(out->gen));
}

static void open_one(struct json_out *out, char kind)
{
    write_opened(out);
    out->opened = kind;
}

/* If the innermost object or array is empty, write it and return true. yajl copies a "number" unchanged. */
static bool close_empty(struct json_out *out, const char *text)
{
    if (out->opened == 0)
        return false;
    out->opened = 0;
    GENERATE(out, yajl_gen_number(out->gen, text, strlen(text)));
    return true;
}

void json_out_map_open(struct json_out *out)
{
    open_one(out, '{');
}

void json_out_map_close(struct json_out *out)
{
    if (!close_empty(out, "{}"))
        GENERATE(out, yajl_gen_map_close(out->gen));
}

void json_out_array_open(struct json_out *out)
{
    open_one(out, '[');
}

void json_out_array_close(struct json_out *out)
{
    if (!close_empty(out, "[]"))
        GENERATE(out, yajl_gen_array_close(out->gen));
}

/* Return the length of the valid UTF-8 sequence at s, or 0 if there is none. */
static size_t utf8_length(const unsigned char *s)
{
    if (s[0] < 0x80)
        return 1;
    size_t n = s[0] >= 0xf0 && s[0] <= 0xf4 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc2 ? 2 : 0;
    if (s[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

/* Return a copy with U+FFFD for every byte that is not UTF-8, or NULL. Names of files and processes may hold
 * any byte, JSON may not. */
static char *repair_utf8(const char *s)
{
    char *copy = malloc(3 * strlen(s) + 1), *to = copy;
    if (copy == NULL)
        return NULL;
    while (*s != '\0') {
        size_t n = utf8_length((const unsigned char *)s);
        if (n == 0) {
            memcpy(to, "\xef\xbf\xbd", 3);
            to += 3;
            s++;
        } else {
            memcpy(to, s, n);
            to += n;
            s += n;
        }
    }
    *to = '\0';
    return copy;
}

void json_out_string(struct json_out *out, const char *s)
{
    write_opened(out);
    bool plain = true;
    for (const char *p = s; plain && *p != '\0'; p++)
        plain = (unsigned char)*p < 0x80;
    if (plain) {
        GENERATE(out, yajl_gen_string(out->gen, (const unsigned char *)s, strlen(s)));
        return;
    }
    char *copy = repair_utf8(s);
    if (copy == NULL) {
        out->failed = true;
        return;
    }
    GENERATE(out, yajl_gen_string(out->gen, (const unsigned char *)copy, strlen(copy)));
    free(copy);
}

void json_out_i64(struct json_out *out, int64_t v)
{
    write_opened(out);
    GENERATE(out, yajl_gen_integer(out->gen, v));
}

void json_out_u64(struct json_out *out, uint64_t v)
{
    write_opened(out);
    char text[24];
    int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
    GENERATE(out, yajl_gen_number(out->gen, text, (size_t)n));
}

void json_out_double(struct json_out *out, double v)
{
    write_opened(out);
    GENERATE(out, yajl_gen_double(out->gen, v));
}

void json_out_bool(struct json_out *out, bool v)
{
    write_opened(out);
    GENERATE(out, yajl_gen_bool(out->gen, v));
}

void json_out_null(struct json_out *out)
{
    write_opened(out);
    GENERATE(out, yajl_gen_null(out->gen));
}

void json_out_pair_string(struct json_out *out, const char *key, const char *value)
{
    if (value == NULL)
        return;
    json_out_key(out, key);
    json_out_string(out, value);
}

void json_out_pair_i64(struct json_out *out, const char *key, int64_t value)
{
    json_out_key(out, key);
    json_out_i64(out, value);
}

void json_out_pair_u64(struct json_out *out, const char *key, uint64_t value)
{
    json_out_key(out, key);
    json_out_u64(out, value);
}

void json_out_pair_bool(struct json_out *out, const char *key, bool value)
{
    json_out_key(out, key);
    json_out_bool(out, value);
}

const char *json_out_text(struct json_out *out, size_t *size)
{
    const unsigned char *text;
    size_t len;
    if (out->failed || yajl_gen_get_buf(out->gen, &text, &len) != yajl_gen_status_ok)
        return NULL;
    if (size != NULL)
        *size = len;
    return (const char *)text;
}

int json_out_print(struct json_out *out)
{
    size_t size;
    const char *text = json_out_text(out, &size);
    if (text == NULL)
        return -ENOMEM;
    int ret = io_write_full(STDOUT_FILENO, text, size);
    if (ret < 0 || (size > 0 && text[size - 1] == '\n'))
        return ret;
    return io_write_full(STDOUT_FILENO, "\n", 1);
}
