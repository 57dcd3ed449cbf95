/* Decode JSON objects into structures by tables: one table for each object, one row for each property. */
#pragma once

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
    FIELD_INLINE,     /* an object whose rows are members of the same structure */
    FIELD_OBJECT,     /* an object of its own in the arena, by pointer */
    FIELD_LIST,       /* array of objects: {T *items; size_t count} */
    FIELD_OBJECT_MAP, /* object of objects: {T *items; size_t count}, with the key in a string of T */
    FIELD_TEXT,       /* an object as struct json_text */
    FIELD_PRESENT,    /* bool: true if the property is present, with any value */
};

enum field_flags {
    FIELD_REQUIRED = 1,  /* must be present and not null */
    FIELD_NOT_EMPTY = 2, /* the empty string is an error */
    FIELD_EMPTY_NULL =
        4, /* the empty string means absent, because engines in Go write it for an unset string */
};

struct field {
    const char *key;
    enum field_kind kind;
    unsigned flags;
    size_t offset;       /* of the member; for a list, of its items */
    size_t count_offset; /* for a list, of its count */
    union {
        const char *const *words; /* strings: the allowed values, NULL-terminated; NULL for any */
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
    size_t key_offset; /* FIELD_OBJECT_MAP: of the const char * for the key */
};

/* Decode the object into the zeroed structure `out`. Properties without a row are ignored, as the
 * specification requires (extensibility), and null means absent. All results live in the arena. 0 or -EINVAL
 * with the JSON path in err. */
int schema_decode(struct arena *a, const struct json_value *value, const struct schema *schema, void *out,
                  struct error *err);

/* Refuse a property without a row, in lists and nested objects too. For documents that only this runtime
 * reads. schema_decode, not this function, refuses a value of the wrong kind. 0 or -EINVAL with the JSON path
 * in err. */
int schema_refuse_unknown(struct arena *a, const struct json_value *value, const struct schema *schema,
                          struct error *err);
