/* The pieces of a template's report, put together (its records: warm/manifest/manifest.h). A parser only: the
 * bytes come from a process of the container, and no system call is made. */
#ifndef PYSBX_CONTAINER_TEMPLATE_REPORT_H
#define PYSBX_CONTAINER_TEMPLATE_REPORT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of a report, which names every file of every module: pandas needs 200 KiB. */
#define TEMPLATE_REPORT_MAX ((size_t)8 * 1024 * 1024)

/* Names of modules are shorter (warm/decide.c). */
#define TEMPLATE_MODULE_MAX 256

struct template_report_text {
    char *data; /* room for TEMPLATE_REPORT_MAX bytes */
    size_t size;
    char module[TEMPLATE_MODULE_MAX]; /* the last that was announced, or "" */
    bool asked;
};

enum template_report_state {
    TEMPLATE_REPORT_OPEN,
    TEMPLATE_REPORT_REHEARSAL, /* the piece is the whole message of the rehearsal; the report is as it was */
    TEMPLATE_REPORT_ASKS,      /* "q", once: what the observer has noted; it is not part of the report */
    TEMPLATE_REPORT_FAILED,    /* the last record is the template's own reason */
    TEMPLATE_REPORT_READY,
};

/* Take a piece of `size` bytes, at least one, that was received behind the report's bytes (data + size), with
 * room for it. */
enum template_report_state template_report_take(struct template_report_text *report, size_t size);

/* Return the reason of a failed report. */
const char *template_report_reason(const struct template_report_text *report);

/* Tell whether a piece is the message of the rehearsal. */
bool template_report_is_rehearsal(const char *piece, size_t size);

#endif
