/* Decoding JSON objects into structures by tables: one table an object, one row a property. */
#ifndef PYSBX_SPEC_SCHEMA_H
#define PYSBX_SPEC_SCHEMA_H

#include <stddef.h>
#include <stdint.h>

struct arena;
struct error;
struct json_value;

enum field_kind {
    FIELD_STRING,     /* const char * */
    FIELD_BOOL,       /* bool */
    FIELD_OPT_BOOL,   /* struct opt_bool */
    FIELD_U32,        /* uint32_t */
    FIELD_U64,        /* uint64_t */
    FIELD_I64,        /* int64_t */
    FIELD_OPT_U64,    /* struct opt_u64 */
    FIELD_OPT_I64,    /* struct opt_i64 */
    FIELD_STRINGS,    /* {const char **items; size_t count} */
    FIELD_U32_LIST,   /* {uint32_t *items; size_t count} */
    FIELD_STRING_MAP, /* {struct str_pair *items; size_t count} */
    FIELD_INLINE,     /* an object whose rows count from the same structure */
    FIELD_OBJECT,     /* an object of its own in the arena: pointer */
    FIELD_LIST,       /* array of objects: {T *items; size_t count} */
    FIELD_OBJECT_MAP, /* object of objects: {T *items; size_t count}, the key in a string of T */
    FIELD_TEXT,       /* an object as struct json_text */
    FIELD_PRESENT,    /* bool: true when the property is given, whatever it holds */
};

enum field_flags {
    FIELD_REQUIRED = 1,   /* must be given (and not be null) */
    FIELD_NOT_EMPTY = 2,  /* the empty string is an error */
    FIELD_EMPTY_NULL = 4, /* the empty string means absent: engines in Go write it for an unset string */
};

struct field {
    const char *key;
    enum field_kind kind;
    unsigned flags;
    size_t offset;       /* of the member, of a list its items */
    size_t count_offset; /* of a list: its count */
    union {
        const char *const *words; /* strings: the values allowed, NULL-terminated; NULL for any */
        const struct schema *child;
        struct {
            int64_t min; /* numbers: inclusive range */
            uint64_t max;
        };
    };
};

struct schema {
    const struct field *fields;
    size_t count;
    size_t size;       /* of the structure */
    size_t key_offset; /* FIELD_OBJECT_MAP: of the const char * that takes the key */
};

/* Decode the object into the zeroed structure `out`. Properties without a row are ignored, as the
 * specification's extensibility asks; null is absent. Everything decoded lives in the arena.
 * 0 or -EINVAL with the JSON path in err. */
int schema_decode(struct arena *a, const struct json_value *value, const struct schema *schema, void *out,
                  struct error *err);

/* Refuse a property without a row, in lists and nested objects too: for documents that only this runtime
 * reads. A value of another kind than its row's is left to schema_decode. 0 or -EINVAL with the JSON path in
 * err. */
int schema_refuse_unknown(struct arena *a, const struct json_value *value, const struct schema *schema,
                          struct error *err);

#endif
