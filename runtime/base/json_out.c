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
#include "base/str.h"

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

/* Return a copy with U+FFFD for every byte that is not UTF-8, or NULL. Names of files and processes may hold
 * any byte, JSON may not. */
static char *repair_utf8(const char *s)
{
    char *copy = malloc(3 * strlen(s) + 1), *to = copy;
    if (copy == NULL)
        return NULL;
    while (*s != '\0') {
        size_t n = str_utf8_length(s);
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
    write_opened(out);
    GENERATE(out, yajl_gen_bool(out->gen, value));
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
    /* yajl has escaped the control characters below U+0020. The other hidden ones can only be in strings. */
    const char *rest = text, *next;
    int ret = 0;
    for (const char *p = text; ret == 0 && *p != '\0'; p = next) {
        unsigned code;
        size_t hidden = str_hidden(p, &code);
        next = p + (hidden > 0 ? hidden : str_utf8_length(p));
        if (hidden == 0 || code < ' ')
            continue;
        char escaped[8];
        int n = snprintf(escaped, sizeof(escaped), "\\u%04x", code);
        ret = io_write_full(STDOUT_FILENO, rest, (size_t)(p - rest));
        if (ret == 0)
            ret = io_write_full(STDOUT_FILENO, escaped, (size_t)n);
        rest = next;
    }
    if (ret == 0)
        ret = io_write_full(STDOUT_FILENO, rest, strlen(rest));
    if (ret < 0 || (size > 0 && text[size - 1] == '\n'))
        return ret;
    return io_write_full(STDOUT_FILENO, "\n", 1);
}
