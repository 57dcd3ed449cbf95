/* JSON that the runtime writes: a thin layer over yajl's generator. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A writer. After a failed allocation, further calls do nothing and json_out_text returns NULL, so callers
 * check once. */
struct json_out;

/* Create a writer. pretty: an indent of two spaces, for people; otherwise compact, for hooks. Slashes are
 * never escaped. Never NULL. The caller frees it with json_out_free or cleanup_json_out. */
struct json_out *json_out_new(bool pretty);
/* Free the writer and its text. NULL is allowed. */
void json_out_free(struct json_out *out);
/* Free *out and set it to NULL. For cleanup_json_out. */
void json_out_cleanup(struct json_out **out);
#define cleanup_json_out __attribute__((cleanup(json_out_cleanup)))

/* Open or close an object (map) or an array. An empty one is written on one line. */
void json_out_map_open(struct json_out *out);
void json_out_map_close(struct json_out *out);
void json_out_array_open(struct json_out *out);
void json_out_array_close(struct json_out *out);
/* Write a key, whose value the next call writes, or a string value. Both are the same call. A byte that is
 * not UTF-8 is written as U+FFFD. */
void json_out_string(struct json_out *out, const char *s);
/* Write a value: an element of the array, or the value of the last key. */
void json_out_i64(struct json_out *out, int64_t v);
void json_out_u64(struct json_out *out, uint64_t v);
void json_out_double(struct json_out *out, double v);
void json_out_null(struct json_out *out);
#define json_out_key json_out_string

/* Write a key and its value. If the string is NULL, write neither. */
void json_out_pair_string(struct json_out *out, const char *key, const char *value);
/* Write a key and its value. */
void json_out_pair_i64(struct json_out *out, const char *key, int64_t value);
void json_out_pair_u64(struct json_out *out, const char *key, uint64_t value);
void json_out_pair_bool(struct json_out *out, const char *key, bool value);

/* Return the text so far, NUL-terminated and owned by the writer, or NULL after a failure. *size is its
 * length; `size` may be NULL. */
const char *json_out_text(struct json_out *out, size_t *size);

/* Write the text and a newline to standard output. 0 or negative errno, -ENOMEM after a failure. */
int json_out_print(struct json_out *out);
