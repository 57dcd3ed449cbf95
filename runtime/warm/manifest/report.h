/* A builder's report: which files, variables and modules its imports looked at. The report is untrusted: the
 * form of every record is checked, and only paths and names are taken from it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct error;
struct manifest_source;

/* The item of a record: a name in a directory, or the path itself (name NULL), or the statement that the path
 * is a directory (name empty). Whether it exists is not taken from the report. */
struct report_item {
    const char *directory, *name;
    bool link;      /* the link itself counts, not its target */
    bool kind_only; /* only its existence and type count */
    bool status;    /* its identity was asked for, not only its content */
    bool unread;    /* its content was not read */
};

struct report_names {
    const char **items;
    size_t count;
};

struct report {
    struct report_item *items; /* sorted by directory and name; the strictest demand on a name comes first */
    size_t item_count;
    struct report_names modules, places, values; /* the first two are sorted, each once */
    struct report_names variables; /* "NAME=value", or "NAME" for one that is not set; sorted, each once */
    const char *python;
    bool whole_environment, asks_terminal;
};

/* Read the report of `source` up to its end, and take the values of variables from its environment. All
 * strings belong to the source or the arena. -EPROTO for a malformed report, -ENOEXEC if the builder refuses.
 */
int report_read(struct arena *a, const struct manifest_source *source, struct report *out, struct error *err);
