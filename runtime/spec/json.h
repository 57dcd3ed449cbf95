/* JSON text to a tree of values in the arena: yajl's events, with limits and with what RFC 8259 leaves open
 * decided: duplicate keys and NUL characters are errors, numbers keep their text. */
#ifndef PYSBX_SPEC_JSON_H
#define PYSBX_SPEC_JSON_H

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
    const char *key; /* name within the object that holds it; NULL in an array and for the root */
    union {
        bool boolean;
        const char *text;         /* a string decoded, a number as it is written */
        struct json_value *first; /* elements or members in the order of the text */
    };
    struct json_value *last;
    struct json_value *next;   /* among its siblings */
    struct json_value *parent; /* NULL for the root */
    const char *begin, *end;   /* of an array or object: its bytes, brackets included */
    uint32_t count;            /* elements or members */
    enum json_kind kind;
};

/* Parse `text`. The arrays and objects at the key path `opaque` (NULL-terminated, NULL for none) stay without
 * children: only begin and end are known, for the caller who decodes them later or never. `name` becomes the
 * root's key, so that paths begin with it; NULL for none. `text` must outlive the tree.
 * 0 or negative errno; err says "line N: …" for text that is no JSON and "path: …" for
 * JSON that is refused. */
int json_parse(struct arena *a, const char *text, size_t size, const char *name, const char *const *opaque,
               struct json_value **root, struct error *err);

/* Member of an object by name, or NULL; a member that is null counts as absent. */
const struct json_value *json_member(const struct json_value *object, const char *key);

/* Where the value stands: "mounts[3].options[1]", `annotations["a.b"]`; "" for a root without name. In the
 * arena. */
const char *json_path(struct arena *a, const struct json_value *value);

/* What a message calls this kind: "an object", "a string", … */
const char *json_kind_name(enum json_kind kind);

/* Fill err with "path: text" (without the path where there is none); returns -EINVAL. */
int json_error(struct arena *a, const struct json_value *value, struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
