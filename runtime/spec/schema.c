/* One function for each kind of value. memcpy stores members that have different types in different rows. */
#include "spec/schema.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "spec/json.h"
#include "spec/spec.h"

struct decoder {
    struct arena *arena;
    struct error *err;
};

static int mismatch(const struct decoder *d, const struct json_value *v, const char *expected)
{
    return json_error(d->arena, v, d->err, "expected %s, found %s", expected, json_kind_name(v->kind));
}

static int expect(const struct decoder *d, const struct json_value *v, enum json_kind kind)
{
    return v->kind == kind ? 0 : mismatch(d, v, json_kind_name(kind));
}

static bool is_one_of(const char *word, const char *const *words)
{
    for (; *words != NULL; words++)
        if (str_eq(word, *words))
            return true;
    return false;
}

static const char *join(struct arena *a, const char *const *words)
{
    const char *text = words[0];
    for (size_t i = 1; words[i] != NULL; i++)
        text = arena_printf(a, "%s, %s", text, words[i]);
    return text;
}

static int decode_string(const struct decoder *d, const struct json_value *v, const struct field *f,
                         const char **out)
{
    int ret = expect(d, v, JSON_STRING);
    if (ret < 0)
        return ret;
    if (*v->text == '\0' && (f->flags & FIELD_NOT_EMPTY))
        return json_error(d->arena, v, d->err, "empty");
    if (*v->text == '\0' && (f->flags & FIELD_EMPTY_NULL))
        return 0;
    if (f->words != NULL && !is_one_of(v->text, f->words))
        return json_error(d->arena, v, d->err, "unknown value '%s' (known: %s)", v->text,
                          join(d->arena, f->words));
    *out = v->text;
    return 0;
}

static int decode_bool(const struct decoder *d, const struct json_value *v, bool *out)
{
    int ret = expect(d, v, JSON_BOOL);
    if (ret < 0)
        return ret;
    *out = v->boolean;
    return 0;
}

/* Decode an integer within the row's range as 64 bits; the row's kind decides its sign. The magnitude is read
 * without a sign, because a limit may be 18446744073709551615. */
static int decode_integer(const struct decoder *d, const struct json_value *v, const struct field *f,
                          uint64_t *out)
{
    if (v->kind != JSON_NUMBER)
        return mismatch(d, v, "an integer");
    bool negative = v->text[0] == '-';
    uint64_t magnitude = 0;
    int ret = str_to_u64(v->text + negative, UINT64_MAX, &magnitude);
    if (ret == -EINVAL)
        return json_error(d->arena, v, d->err, "expected an integer, found %s", v->text);
    uint64_t lowest = f->min < 0 ? 0 - (uint64_t)f->min : 0;
    if (ret < 0 || (negative ? magnitude > lowest : magnitude > f->max) ||
        (f->min > 0 && (negative || magnitude < (uint64_t)f->min)))
        return json_error(d->arena, v, d->err, "%s is out of range (%" PRId64 " to %" PRIu64 ")", v->text,
                          f->min, f->max);
    *out = negative ? 0 - magnitude : magnitude;
    return 0;
}

static int schema_decode_number(const struct decoder *d, const struct json_value *v, const struct field *f,
                                void *member)
{
    uint64_t number = 0;
    int ret = decode_integer(d, v, f, &number);
    if (ret < 0)
        return ret;
    switch (f->kind) {
    case FIELD_U32:
        *(uint32_t *)member = (uint32_t)number;
        break;
    case FIELD_U64:
        *(uint64_t *)member = number;
        break;
    case FIELD_I64:
        *(int64_t *)member = (int64_t)number;
        break;
    case FIELD_OPT_U64:
        *(struct opt_u64 *)member = (struct opt_u64){.set = true, .value = number};
        break;
    default:
        *(struct opt_i64 *)member = (struct opt_i64){.set = true, .value = (int64_t)number};
        break;
    }
    return 0;
}

static int decode_object(const struct decoder *d, const struct json_value *v, const struct schema *schema,
                         void *out);

/* Decode one element of a list. */
static int decode_element(const struct decoder *d, const struct json_value *v, const struct field *f,
                          void *element)
{
    uint64_t number = 0;
    int ret;
    switch (f->kind) {
    case FIELD_STRINGS:
        return decode_string(d, v, f, element);
    case FIELD_U32_LIST:
        ret = decode_integer(d, v, f, &number);
        *(uint32_t *)element = (uint32_t)number;
        return ret;
    case FIELD_STRING_MAP:
        ((struct str_pair *)element)->key = v->key;
        return decode_string(d, v, f, &((struct str_pair *)element)->value);
    case FIELD_OBJECT_MAP:
        memcpy((char *)element + f->child->key_offset, &v->key, sizeof(v->key));
        return decode_object(d, v, f->child, element);
    default:
        return decode_object(d, v, f->child, element);
    }
}

static size_t element_size(const struct field *f)
{
    switch (f->kind) {
    case FIELD_STRINGS:
        return sizeof(const char *);
    case FIELD_U32_LIST:
        return sizeof(uint32_t);
    case FIELD_STRING_MAP:
        return sizeof(struct str_pair);
    default:
        return f->child->size;
    }
}

static int decode_list(const struct decoder *d, const struct json_value *v, const struct field *f, void *out)
{
    bool map = f->kind == FIELD_STRING_MAP || f->kind == FIELD_OBJECT_MAP;
    int ret = expect(d, v, map ? JSON_OBJECT : JSON_ARRAY);
    if (ret < 0)
        return ret;
    if (v->count == 0)
        return 0;
    size_t size = element_size(f), count = v->count;
    /* One item more, which stays zero: see struct str_list. */
    char *items = arena_array(d->arena, count + 1, size);
    char *element = items;
    for (const struct json_value *e = v->first; e != NULL; e = e->next, element += size) {
        ret = decode_element(d, e, f, element);
        if (ret < 0)
            return ret;
    }
    memcpy((char *)out + f->offset, &items, sizeof(items));
    memcpy((char *)out + f->count_offset, &count, sizeof(count));
    return 0;
}

static int decode_pointer(const struct decoder *d, const struct json_value *v, const struct field *f,
                          void *member)
{
    void *object = arena_alloc(d->arena, f->child->size);
    memcpy(member, &object, sizeof(object));
    return decode_object(d, v, f->child, object);
}

static int decode_text(const struct decoder *d, const struct json_value *v, struct json_text *out)
{
    int ret = expect(d, v, JSON_OBJECT);
    if (ret < 0)
        return ret;
    *out = (struct json_text){.data = v->begin, .size = (size_t)(v->end - v->begin)};
    return 0;
}

static int decode_field(const struct decoder *d, const struct json_value *v, const struct field *f, void *out)
{
    void *member = (char *)out + f->offset;
    switch (f->kind) {
    case FIELD_STRING:
        return decode_string(d, v, f, member);
    case FIELD_BOOL:
        return decode_bool(d, v, member);
    case FIELD_OPT_BOOL:
        ((struct opt_bool *)member)->set = true;
        return decode_bool(d, v, &((struct opt_bool *)member)->value);
    case FIELD_U32:
    case FIELD_U64:
    case FIELD_I64:
    case FIELD_OPT_U64:
    case FIELD_OPT_I64:
        return schema_decode_number(d, v, f, member);
    case FIELD_STRINGS:
    case FIELD_U32_LIST:
    case FIELD_STRING_MAP:
    case FIELD_LIST:
    case FIELD_OBJECT_MAP:
        return decode_list(d, v, f, out);
    case FIELD_INLINE:
        return decode_object(d, v, f->child, member);
    case FIELD_OBJECT:
        return decode_pointer(d, v, f, member);
    case FIELD_TEXT:
        return decode_text(d, v, member);
    case FIELD_PRESENT:
        *(bool *)member = true;
        return 0;
    }
    return -EINVAL;
}

static int decode_object(const struct decoder *d, const struct json_value *v, const struct schema *schema,
                         void *out)
{
    int ret = expect(d, v, JSON_OBJECT);
    if (ret < 0)
        return ret;
    for (size_t i = 0; i < schema->count; i++) {
        const struct field *f = &schema->fields[i];
        const struct json_value *member = json_member(v, f->key);
        if (member == NULL && (f->flags & FIELD_REQUIRED))
            return json_error(d->arena, v, d->err, "'%s' is missing", f->key);
        if (member == NULL)
            continue;
        ret = decode_field(d, member, f, out);
        if (ret < 0)
            return ret;
    }
    return 0;
}

int schema_decode(struct arena *a, const struct json_value *value, const struct schema *schema, void *out,
                  struct error *err)
{
    return decode_object(&(struct decoder){.arena = a, .err = err}, value, schema, out);
}

static const struct field *find_field(const struct schema *schema, const char *key)
{
    for (size_t i = 0; i < schema->count; i++)
        if (str_eq(schema->fields[i].key, key))
            return &schema->fields[i];
    return NULL;
}

/* Refuse unknown keys in a member that is an object or a list of objects. */
static int refuse_unknown_below(struct arena *a, const struct json_value *member, const struct field *field,
                                struct error *err)
{
    if (field->kind == FIELD_INLINE || field->kind == FIELD_OBJECT)
        return schema_refuse_unknown(a, member, field->child, err);
    if (field->kind != FIELD_LIST || member->kind != JSON_ARRAY)
        return 0;
    for (const struct json_value *item = member->first; item != NULL; item = item->next) {
        int ret = schema_refuse_unknown(a, item, field->child, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

int schema_refuse_unknown(struct arena *a, const struct json_value *value, const struct schema *schema,
                          struct error *err)
{
    if (value->kind != JSON_OBJECT)
        return 0;
    for (const struct json_value *member = value->first; member != NULL; member = member->next) {
        const struct field *field = find_field(schema, member->key);
        if (field == NULL)
            return json_error(a, member, err, "unknown key");
        int ret = refuse_unknown_below(a, member, field, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}
