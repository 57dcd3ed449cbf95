/* The pieces of a template's report, put together (its records: warm/manifest/manifest.h). A parser only: the
 * bytes come from a process of the container, and no system call is made. */
#ifndef PYSBX_PREWARM_BUILDER_REPORT_H
#define PYSBX_PREWARM_BUILDER_REPORT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of a report, which names every file of every module: pandas needs 200 KiB. */
#define BUILDER_REPORT_MAX ((size_t)8 * 1024 * 1024)

/* Names of modules are shorter (warm/decide.c). */
#define BUILDER_MODULE_MAX 256

struct builder_report_text {
    char *data; /* room for BUILDER_REPORT_MAX bytes */
    size_t size;
    char module[BUILDER_MODULE_MAX]; /* the last that was announced, or "" */
    bool asked;
};

enum builder_report_state {
    BUILDER_REPORT_OPEN,
    BUILDER_REPORT_REHEARSAL, /* the piece is the whole message of the rehearsal; the report is as it was */
    BUILDER_REPORT_ASKS,      /* "q", once: what the observer has noted; it is not part of the report */
    BUILDER_REPORT_FAILED,    /* the last record is the template's own reason */
    BUILDER_REPORT_READY,
};

/* Take a piece of `size` bytes, at least one, that was received behind the report's bytes (data + size), with
 * room for it. */
enum builder_report_state builder_report_take(struct builder_report_text *report, size_t size);

/* Return the reason of a failed report. */
const char *builder_report_reason(const struct builder_report_text *report);

/* Tell whether a piece is the message of the rehearsal. */
bool builder_report_is_rehearsal(const char *piece, size_t size);

#endif
