/* The tree is built from yajl's events. No function recurses, so that depth costs no stack. */
#include "spec/json.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json_memory.h"
#include "base/str.h"
#include "base/text.h"

/* A key and its value, for sorting. */
struct name {
    const char *key;
    const struct json_value *value;
};

struct parser {
    struct arena *arena;
    yajl_handle yajl;
    const char *text;
    const char *const *opaque;
    struct error *err;
    struct json_value *root;
    struct json_value *open; /* the array or object to which events belong */
    const char *key;         /* of the next member */
    size_t nodes;
    unsigned depth;
    unsigned skipped;   /* depth within an opaque value, 0 outside */
    struct name *names; /* buffer for the search for duplicate keys */
    size_t names_room;
    bool failed; /* a callback has refused the text and filled err */
};

static bool plain_key(const char *key)
{
    if (*key == '\0')
        return false;
    for (; *key != '\0'; key++)
        if (!isalnum((unsigned char)*key) && *key != '_' && *key != '-')
            return false;
    return true;
}

static size_t index_of(const struct json_value *value)
{
    size_t index = 0;
    for (const struct json_value *v = value->parent->first; v != value; v = v->next)
        index++;
    return index;
}

static void add_step(struct text *path, const struct json_value *value)
{
    bool is_root = value->parent == NULL;
    if (value->key == NULL && !is_root) {
        text_add(path, "[%zu]", index_of(value));
    } else if (value->key != NULL && (is_root || plain_key(value->key))) {
        text_separate(path, ".");
        text_add(path, "%s", value->key);
    } else if (value->key != NULL) {
        text_add(path, "[\"%s\"]", value->key);
    }
}

const char *json_path(struct arena *a, const struct json_value *value)
{
    size_t count = 0;
    for (const struct json_value *v = value; v != NULL; v = v->parent)
        count++;
    const struct json_value **steps = ARENA_ARRAY(a, count, const struct json_value *);
    for (size_t i = count; i > 0; value = value->parent)
        steps[--i] = value;
    struct text path = {.arena = a};
    for (size_t i = 0; i < count; i++)
        add_step(&path, steps[i]);
    return text_string(&path);
}

int json_error(struct arena *a, const struct json_value *value, struct error *err, const char *fmt, ...)
{
    va_list ap;
    char text[ERROR_TEXT_MAX];
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    const char *path = json_path(a, value);
    return error_set(err, -EINVAL, "%s%s%s", path, *path != '\0' ? ": " : "", text);
}

const char *json_kind_name(enum json_kind kind)
{
    static const char *const names[] = {
        [JSON_NULL] = "null",       [JSON_BOOL] = "a boolean", [JSON_NUMBER] = "a number",
        [JSON_STRING] = "a string", [JSON_ARRAY] = "an array", [JSON_OBJECT] = "an object",
    };
    return names[kind];
}

const struct json_value *json_member(const struct json_value *object, const char *key)
{
    for (const struct json_value *m = object->first; m != NULL; m = m->next)
        if (str_eq(m->key, key))
            return m->kind != JSON_NULL ? m : NULL;
    return NULL;
}

static size_t line_at(const char *text, size_t offset)
{
    size_t line = 1;
    for (size_t i = 0; i < offset; i++)
        line += text[i] == '\n';
    return line;
}

/* Return the offset of the first byte after the current event's token. */
static size_t consumed(const struct parser *p)
{
    return yajl_get_bytes_consumed(p->yajl);
}

static int json_refuse(struct parser *p)
{
    p->failed = true;
    return 0;
}

static struct json_value *add_value(struct parser *p, enum json_kind kind)
{
    if (p->nodes++ == JSON_NODES_MAX) {
        error_set(p->err, -EINVAL, "line %zu: more than %zu values", line_at(p->text, consumed(p)),
                  JSON_NODES_MAX);
        json_refuse(p);
        return NULL;
    }
    struct json_value *v = ARENA_NEW(p->arena, struct json_value);
    v->kind = kind;
    v->parent = p->open;
    if (p->open == NULL) {
        v->key = p->root != NULL ? p->root->key : NULL;
        p->root = v;
        return v;
    }
    if (p->open->kind == JSON_OBJECT) {
        v->key = p->key;
        p->key = NULL;
    }
    if (p->open->last != NULL)
        p->open->last->next = v;
    else
        p->open->first = v;
    p->open->last = v;
    p->open->count++;
    return v;
}

/* Return whether this is the value at the key path that the caller wants undecoded. */
static bool is_opaque(const struct parser *p, const struct json_value *v)
{
    if (p->opaque == NULL)
        return false;
    size_t n = 0;
    while (p->opaque[n] != NULL)
        n++;
    for (; n > 0; n--, v = v->parent)
        if (v->parent == NULL || !str_eq(v->key, p->opaque[n - 1]))
            return false;
    return v->parent == NULL;
}

static int open_container(struct parser *p, enum json_kind kind)
{
    if (++p->depth > JSON_DEPTH_MAX) {
        error_set(p->err, -EINVAL, "line %zu: nested more than %d levels deep", line_at(p->text, consumed(p)),
                  JSON_DEPTH_MAX);
        return json_refuse(p);
    }
    if (p->skipped > 0) {
        p->skipped++;
        return 1;
    }
    struct json_value *v = add_value(p, kind);
    if (v == NULL)
        return 0;
    v->begin = p->text + consumed(p) - 1;
    p->open = v;
    if (is_opaque(p, v))
        p->skipped = 1;
    return 1;
}

static void close_container(struct parser *p)
{
    p->open->end = p->text + consumed(p);
    p->open = p->open->parent;
}

/* Leave the innermost level. Return whether it was part of an opaque value. */
static bool leave_level(struct parser *p)
{
    p->depth--;
    return p->skipped > 0 && --p->skipped > 0;
}

static int json_compare_keys(const void *a, const void *b)
{
    return strcmp(((const struct name *)a)->key, ((const struct name *)b)->key);
}

static int refuse_duplicate_keys(struct parser *p, const struct json_value *object)
{
    if (object->count < 2)
        return 1;
    if (object->count > p->names_room) {
        p->names_room = object->count < 64 ? 64 : (size_t)object->count * 2;
        p->names = ARENA_ARRAY(p->arena, p->names_room, struct name);
    }
    size_t n = 0;
    for (const struct json_value *m = object->first; m != NULL; m = m->next)
        p->names[n++] = (struct name){m->key, m};
    qsort(p->names, n, sizeof(struct name), json_compare_keys);
    for (size_t i = 1; i < n; i++) {
        if (str_eq(p->names[i - 1].key, p->names[i].key)) {
            json_error(p->arena, p->names[i].value, p->err, "given twice");
            return json_refuse(p);
        }
    }
    return 1;
}

static int on_null(void *ctx)
{
    struct parser *p = ctx;
    return p->skipped > 0 || add_value(p, JSON_NULL) != NULL;
}

static int on_boolean(void *ctx, int boolean)
{
    struct parser *p = ctx;
    if (p->skipped > 0)
        return 1;
    struct json_value *v = add_value(p, JSON_BOOL);
    if (v == NULL)
        return 0;
    v->boolean = boolean != 0;
    return 1;
}

static int on_number(void *ctx, const char *text, size_t size)
{
    struct parser *p = ctx;
    if (p->skipped > 0)
        return 1;
    struct json_value *v = add_value(p, JSON_NUMBER);
    if (v == NULL)
        return 0;
    v->text = arena_strndup(p->arena, text, size);
    return 1;
}

static int on_string(void *ctx, const unsigned char *text, size_t size)
{
    struct parser *p = ctx;
    if (p->skipped > 0)
        return 1;
    struct json_value *v = add_value(p, JSON_STRING);
    if (v == NULL)
        return 0;
    if (memchr(text, '\0', size) != NULL) {
        json_error(p->arena, v, p->err, "contains a NUL character");
        return json_refuse(p);
    }
    v->text = arena_strndup(p->arena, (const char *)text, size);
    return 1;
}

static int on_key(void *ctx, const unsigned char *text, size_t size)
{
    struct parser *p = ctx;
    if (p->skipped > 0)
        return 1;
    if (memchr(text, '\0', size) != NULL) {
        json_error(p->arena, p->open, p->err, "a key contains a NUL character");
        return json_refuse(p);
    }
    p->key = arena_strndup(p->arena, (const char *)text, size);
    return 1;
}

static int on_open_object(void *ctx)
{
    return open_container(ctx, JSON_OBJECT);
}

static int on_close_object(void *ctx)
{
    struct parser *p = ctx;
    if (leave_level(p))
        return 1;
    const struct json_value *object = p->open;
    close_container(p);
    return refuse_duplicate_keys(p, object);
}

static int on_open_array(void *ctx)
{
    return open_container(ctx, JSON_ARRAY);
}

static int on_close_array(void *ctx)
{
    struct parser *p = ctx;
    if (!leave_level(p))
        close_container(p);
    return 1;
}

static bool is_blank(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (strchr(" \t\r\n", text[i]) == NULL || text[i] == '\0')
            return false;
    return true;
}

/* The text is not JSON: report yajl's reason with the line at which it stopped. */
static int syntax_error(struct parser *p, size_t offset)
{
    unsigned char *reason = yajl_get_error(p->yajl, 0, NULL, 0);
    char *end = reason != NULL ? strpbrk((char *)reason, ".\n") : NULL;
    if (end != NULL)
        *end = '\0';
    error_set(p->err, -EINVAL, "line %zu: %s", line_at(p->text, offset),
              reason != NULL ? (const char *)reason : "not JSON");
    if (reason != NULL)
        yajl_free_error(p->yajl, reason);
    return -EINVAL;
}

int json_parse(struct arena *a, const char *text, size_t size, const char *name, const char *const *opaque,
               struct json_value **root, struct error *err)
{
    static const yajl_callbacks callbacks = {
        .yajl_null = on_null,
        .yajl_boolean = on_boolean,
        .yajl_number = on_number,
        .yajl_string = on_string,
        .yajl_start_map = on_open_object,
        .yajl_map_key = on_key,
        .yajl_end_map = on_close_object,
        .yajl_start_array = on_open_array,
        .yajl_end_array = on_close_array,
    };
    if (size > JSON_SIZE_MAX)
        return error_set(err, -EINVAL, "longer than %zu bytes", JSON_SIZE_MAX);
    if (is_blank(text, size))
        return error_set(err, -EINVAL, "empty");

    struct parser p = {.arena = a, .text = text, .opaque = opaque, .err = err};
    struct json_value named = {.key = name};
    struct json_memory memory;
    json_memory_init(&memory);
    p.root = &named;
    if (setjmp(memory.is_short) != 0)
        return error_set(err, -ENOMEM, "parse JSON");
    p.yajl = yajl_alloc(&callbacks, &memory.functions, &p);

    int ret = 0;
    if (yajl_parse(p.yajl, (const unsigned char *)text, size) != yajl_status_ok)
        ret = p.failed ? -EINVAL : syntax_error(&p, consumed(&p));
    else if (yajl_complete_parse(p.yajl) != yajl_status_ok)
        ret = p.failed ? -EINVAL : syntax_error(&p, size);
    yajl_free(p.yajl);
    if (ret < 0)
        return ret;
    *root = p.root;
    return 0;
}
