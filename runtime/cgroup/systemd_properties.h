/* The properties of a container's scope: what StartTransientUnit and SetUnitProperties are told. */
#ifndef PYSBX_CGROUP_SYSTEMD_PROPERTIES_H
#define PYSBX_CGROUP_SYSTEMD_PROPERTIES_H

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
    uint64_t number; /* a signed one in two's complement */
    const char *text;
    const char *const *texts; /* ends with NULL */
    const uint8_t *bytes;
    size_t size; /* of bytes */
    /* Not to be left out when this systemd does not know it: the others repeat what is
     * also written to files. */
    bool required;
};

struct systemd_properties {
    struct systemd_property *items;
    size_t count;
};

/* What every scope of a container is: described, in its slice, delegated (systemd leaves alone what is below
 * it), accounted for. */
void systemd_properties_of_scope(struct arena *a, const char *description, const char *slice,
                                 struct systemd_properties *properties);

/* The limits among `writes` that systemd has a property for, appended to *properties (which begins zeroed or
 * as an earlier call left it). They keep the scope's own cgroup, which systemd manages, in step with the
 * container's below it. Writes of no limit are told too: they lift what was set before. */
void systemd_properties_of_writes(struct arena *a, const struct cgroup_writes *writes,
                                  struct systemd_properties *properties);

/* The annotations org.systemd.property.NAME, values in GVariant text format (booleans, numbers with or
 * without a type word, strings, arrays of strings); a NAME in …Sec becomes …USec, in microseconds. Error:
 * names the annotation. */
int systemd_properties_of_annotations(struct arena *a, const struct spec *spec,
                                      struct systemd_properties *properties, struct error *err);

/* "0-3,7" as a bit mask, lowest byte first, as AllowedCPUs wants it; NULL when it is no such list. */
const uint8_t *systemd_bitmask(struct arena *a, const char *list, size_t *size);

#endif
