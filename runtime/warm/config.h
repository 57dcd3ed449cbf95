/* The configuration of warm start, warm.json: see pysbx-runtime(8) and config/warm.json, which holds the
 * defaults. */
#ifndef PYSBX_WARM_CONFIG_H
#define PYSBX_WARM_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spec/spec.h"

struct arena;
struct error;

/* What preloads for containers that ask for nothing themselves: an annotation of the container, and the value
 * it must have (a pattern of fnmatch(3)). */
struct warm_rule {
    const char *annotation;
    const char *value;
    struct str_list preload;
};

struct warm_config {
    const char *mode; /* without the annotation: "auto", "require", "optIn" (cold); "off": cold in any case */
    bool second_run;  /* a bare interpreter is made on the second run of its key, not on the first */
    bool wait_for_build;  /* wait for another one that makes the same snapshot; else start cold */
    bool rebuild_expired; /* make an expired snapshot anew at once; else start cold until `warm build` does */
    bool prefetch;        /* copy what every process of a snapshot writes to before it does */
    uint32_t max_age;     /* seconds after which a snapshot is not used any more */
    uint64_t max_uses;
    uint64_t max_size;    /* of all snapshots, bytes */
    uint32_t retry_after; /* seconds: what could not be made, or did not fit, is not made again sooner */
    struct {
        uint32_t timeout; /* seconds for start and imports */
        uint64_t memory;  /* bytes, 0: the container's own limit alone */
    } builder;
    struct {
        struct warm_rule *items;
        size_t count;
    } rules;
};

/* Read the file; the defaults when it does not exist. path NULL: a user's own file if there is one, else the
 * machine's (spec/settings.h). 0 or negative errno; err names the place in the file. */
int warm_config_read(struct arena *a, const char *path, bool root_of_host, struct warm_config *out,
                     struct error *err);

/* Decode the text of such a file over the defaults. 0 or negative errno; err names the place in the text. */
int warm_config_parse(struct arena *a, const char *text, size_t size, struct warm_config *out,
                      struct error *err);

#endif
