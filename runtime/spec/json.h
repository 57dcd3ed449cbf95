/* JSON text to a tree of values in the arena, by yajl's events and with limits. RFC 8259 leaves some points
 * open: here duplicate keys and NUL characters are errors, and numbers keep their text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct error;

#define JSON_SIZE_MAX  ((size_t)16 * 1024 * 1024)
#define JSON_DEPTH_MAX 64
#define JSON_NODES_MAX ((size_t)256 * 1024)

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json_value {
    const char *key; /* name within its object; NULL in an array and for the root */
    union {
        bool boolean;
        const char *text;         /* a string decoded, a number unchanged */
        struct json_value *first; /* elements or members in the order of the text */
    };
    struct json_value *last;
    struct json_value *next;   /* among its siblings */
    struct json_value *parent; /* NULL for the root */
    const char *begin, *end;   /* of an array or object: its bytes, including the brackets */
    uint32_t count;            /* elements or members */
    enum json_kind kind;
};

/* Parse `text`, which must outlive the tree. The arrays and objects at the key path `opaque`
 * (NULL-terminated, or NULL for none) get no children, only begin and end, because the caller decodes them
 * later or never. `name` becomes the root's key, so that paths begin with it; NULL for none. 0 or negative
 * errno; err says "line N: …" for a text that is not JSON, and "path: …" for JSON that is refused. */
int json_parse(struct arena *a, const char *text, size_t size, const char *name, const char *const *opaque,
               struct json_value **root, struct error *err);

/* Return the member of an object by name, or NULL. A member that is null counts as absent. */
const struct json_value *json_member(const struct json_value *object, const char *key);

/* Return the path of the value, in the arena: "mounts[3].options[1]", `annotations["a.b"]`, or "" for a root
 * without a name. */
const char *json_path(struct arena *a, const struct json_value *value);

/* Return the name of this kind for a message: "an object", "a string", … */
const char *json_kind_name(enum json_kind kind);

/* Fill err with "path: text", or with the text alone if the path is empty. Return -EINVAL. */
int json_error(struct arena *a, const struct json_value *value, struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
