/* The configuration of warm start, warm.json: see pysbx-runtime(8) and config/warm.json, which holds the
 * defaults. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spec/spec.h"

struct arena;
struct error;

/* A rule that preloads for containers without a preload annotation of their own: an annotation of the
 * container, and the value that it must have (a pattern of fnmatch(3)). */
struct warm_rule {
    const char *annotation;
    const char *value;
    struct str_list preload;
};

struct warm_config {
    const char *mode; /* without the annotation: "auto", "require", "optIn" (cold); "off": always cold */
    bool second_run;  /* the snapshot of a bare interpreter is made on the second run of its key, not on the
                         first */
    bool wait_for_build;  /* wait for another process that makes the same snapshot; else start cold */
    bool rebuild_expired; /* rebuild an expired snapshot immediately; else start cold until `warm build` does
                           */
    bool prefetch;        /* copy the pages that every process of a snapshot writes to before it does */
    uint32_t max_age;     /* seconds after which a snapshot is no longer used */
    uint64_t max_uses;
    uint64_t max_size;    /* of all snapshots, bytes */
    uint32_t retry_after; /* seconds until a snapshot that could not be made, or did not fit, is made again */
    struct {
        uint32_t timeout; /* seconds for start and imports */
        uint64_t memory;  /* bytes, 0: only the container's own limit */
    } builder;
    struct {
        struct warm_rule *items;
        size_t count;
    } rules;
};

/* Read the file; return the defaults if it does not exist. path NULL: the user's own file if it exists, else
 * the system's (spec/settings.h). Return 0 or negative errno; err names the place in the file. */
int warm_config_read(struct arena *a, const char *path, bool root_of_host, struct warm_config *out,
                     struct error *err);

/* Decode the text of such a file over the defaults. Return 0 or negative errno; err names the place in the
 * text. */
int warm_config_parse(struct arena *a, const char *text, size_t size, struct warm_config *out,
                      struct error *err);
