/* Joining the pieces of a report of a probe or builder. Its records are described in
 * warm/manifest/manifest.h. This is only a parser: the bytes come from a process of the container, and it
 * makes no system call. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Maximum size of a report in bytes. It names every file of every module: pandas needs 200 KiB. */
#define BUILDER_REPORT_MAX ((size_t)8 * 1024 * 1024)

/* Names of modules are shorter (warm/decide.c). */
#define BUILDER_MODULE_MAX 256

struct builder_report_text {
    char *data; /* room for BUILDER_REPORT_MAX bytes */
    size_t size;
    char module[BUILDER_MODULE_MAX]; /* the last module that was announced, or "" */
    bool asked;
};

enum builder_report_state {
    BUILDER_REPORT_OPEN,
    /* The piece is the whole message of the rehearsal. The report is unchanged. */
    BUILDER_REPORT_REHEARSAL,
    /* "q", once: the interpreter asks for the observer's records. It is not part of the report. */
    BUILDER_REPORT_ASKS,
    BUILDER_REPORT_FAILED, /* the last record is the interpreter's own reason */
    BUILDER_REPORT_READY,
};

/* Add a piece of `size` bytes, at least one, that was received at data + size of the report, within its
 * space. Return the state of the report. */
enum builder_report_state builder_report_take(struct builder_report_text *report, size_t size);

/* Return the reason of a failed report. It points into the report. */
const char *builder_report_reason(const struct builder_report_text *report);

/* Return whether a piece is the message of the rehearsal. */
bool builder_report_is_rehearsal(const char *piece, size_t size);
