/* What is known of run.pysbx.*, and which name a misspelt one may have been meant to be. */
#include "spec/annotations.h"

#include <stdbool.h>
#include <string.h>

#include "base/json_out.h"
#include "base/log.h"
#include "base/str.h"
#include "spec/spec.h"

#define PREFIX       "run.pysbx."
#define COMPARED_MAX 32 /* what is longer is not compared: it is no slip of the finger */

static const char *const known[] = {
    WARM_ANNOTATION_MODE,
    WARM_ANNOTATION_PRELOAD,
    LANDLOCK_ANNOTATION,
    HOOK_ANNOTATION_UNTRUSTED,
};
#define KNOWN (sizeof(known) / sizeof(known[0]))

static bool is_unknown(const char *name)
{
    bool ours = str_after(name, PREFIX) != NULL;
    for (size_t i = 0; i < KNOWN; i++)
        ours = ours && !str_eq(name, known[i]);
    return ours;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Letters to insert, leave out, replace or exchange with their neighbour; at most COMPARED_MAX in each. */
static size_t distance(const char *a, size_t length_a, const char *b, size_t length_b)
{
    size_t d[COMPARED_MAX + 1][COMPARED_MAX + 1];
    for (size_t i = 0; i <= length_a; i++)
        for (size_t j = 0; j <= length_b; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[length_a][length_b];
}

/* One begins with the other, and that is more than chance. */
static bool begins_alike(const char *a, size_t length_a, const char *b, size_t length_b)
{
    size_t shorter = least(length_a, length_b);
    return shorter >= 3 && strncmp(a, b, shorter) == 0;
}

/* The known name that is nearest, or NULL when none is near: a third of its letters may be wrong. */
static const char *nearest(const char *name)
{
    const char *own = name + strlen(PREFIX), *found = NULL;
    size_t length = strlen(own), best = COMPARED_MAX;
    if (length > COMPARED_MAX)
        return NULL;
    for (size_t i = 0; i < KNOWN; i++) {
        const char *other = known[i] + strlen(PREFIX);
        size_t other_length = strlen(other);
        if (other_length > COMPARED_MAX)
            continue;
        size_t wrong = distance(own, length, other, other_length);
        bool near = wrong <= (other_length + 1) / 3 || begins_alike(own, length, other, other_length);
        if (near && wrong < best) {
            best = wrong;
            found = known[i];
        }
    }
    return found;
}

void annotations_warn(const struct str_map *annotations)
{
    for (size_t i = 0; i < annotations->count; i++) {
        const char *name = annotations->items[i].key;
        if (!is_unknown(name))
            continue;
        const char *near = nearest(name);
        log_warning("annotation '%.128s': not known to this release, and ignored%s%s%s", name,
                    near != NULL ? "; is '" : "", near != NULL ? near : "", near != NULL ? "' meant?" : "");
    }
}

void annotations_describe(const struct str_map *annotations, struct json_out *out)
{
    bool open = false;
    for (size_t i = 0; i < annotations->count; i++) {
        const char *name = annotations->items[i].key;
        if (!is_unknown(name))
            continue;
        if (!open) {
            json_out_key(out, "unknownAnnotations");
            json_out_array_open(out);
            open = true;
        }
        json_out_map_open(out);
        json_out_pair_string(out, "name", name);
        json_out_pair_string(out, "nearest", nearest(name));
        json_out_map_close(out);
    }
    if (open)
        json_out_array_close(out);
}
