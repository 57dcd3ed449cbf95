/* The properties of a container's scope, for StartTransientUnit and SetUnitProperties. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct cgroup_writes;
struct error;
struct spec;

enum systemd_type {
    SYSTEMD_BOOLEAN,       /* "b": number */
    SYSTEMD_INT32,         /* "i": number */
    SYSTEMD_UINT32,        /* "u": number */
    SYSTEMD_INT64,         /* "x": number */
    SYSTEMD_UINT64,        /* "t": number */
    SYSTEMD_STRING,        /* "s": text */
    SYSTEMD_STRINGS,       /* "as": texts */
    SYSTEMD_BYTES,         /* "ay": bytes */
    SYSTEMD_DEVICE_NUMBER, /* "a(st)" with one element: text (a device node) and number */
};

struct systemd_property {
    const char *name; /* "MemoryMax" */
    enum systemd_type type;
    uint64_t number; /* two's complement if signed */
    const char *text;
    const char *const *texts; /* ends with NULL */
    const uint8_t *bytes;
    size_t size; /* of bytes */
    /* Fail if this systemd does not know it. The other properties repeat values that are also written to
     * files. */
    bool required;
};

struct systemd_properties {
    struct systemd_property *items;
    size_t count;
};

/* Set the properties of every container's scope: its description, its slice, delegation (systemd does not
 * touch anything below it), and accounting. */
void systemd_properties_of_scope(struct arena *a, const char *description, const char *slice,
                                 struct systemd_properties *properties);

/* Append the limits of `writes` for which systemd has a property to *properties, which is zeroed or comes
 * from an earlier call. They keep the scope's own cgroup, which systemd manages, consistent with the
 * container's cgroup below it. A write that removes a limit is included, because it lifts an earlier one. */
void systemd_properties_of_writes(struct arena *a, const struct cgroup_writes *writes,
                                  struct systemd_properties *properties);

/* Append the annotations org.systemd.property.NAME. Values are in GVariant text format: booleans, numbers
 * with or without a type word, strings, arrays of strings. A NAME in …Sec becomes …USec, in microseconds. 0
 * or negative errno; the error names the annotation. */
int systemd_properties_of_annotations(struct arena *a, const struct spec *spec,
                                      struct systemd_properties *properties, struct error *err);

/* Return "0-3,7" as a bit mask, lowest byte first, for AllowedCPUs. NULL if it is not such a list. */
const uint8_t *systemd_bitmask(struct arena *a, const char *list, size_t *size);
