/* Parsing the records of a report: the last one, and those that only tell of progress (builder_report.h). */
#include "prewarm/builder_report.h"

#include <stdio.h>
#include <string.h>

/* Return the start of the last complete record in the text, NULL if there is none. */
static const char *last_record(const char *data, size_t size)
{
    if (size == 0 || data[size - 1] != '\0')
        return NULL;
    size_t start = size - 1;
    while (start > 0 && data[start - 1] != '\0')
        start--;
    return data + start;
}

/* Take records of progress from the front of a piece. Each is "i" and the name of the module that is imported
 * next. The interpreter sends no other records before it has imported all. The last name stays in `module`.
 * Return the number of bytes that are left of the piece. */
static size_t take_progress(char *piece, size_t size, char module[static BUILDER_MODULE_MAX])
{
    size_t taken = 0;
    while (taken < size && piece[taken] == 'i') {
        size_t length = strnlen(piece + taken, size - taken);
        snprintf(module, BUILDER_MODULE_MAX, "%.*s", (int)length - 1, piece + taken + 1);
        taken += length < size - taken ? length + 1 : length;
    }
    memmove(piece, piece + taken, size - taken);
    return size - taken;
}

/* The rehearsal sends only "w". It is useful, but not required. */
bool builder_report_is_rehearsal(const char *piece, size_t size)
{
    return size == 2 && piece[0] == 'w' && piece[1] == '\0';
}

enum builder_report_state builder_report_take(struct builder_report_text *report, size_t size)
{
    char *piece = report->data + report->size;
    if (builder_report_is_rehearsal(piece, size))
        return BUILDER_REPORT_REHEARSAL;
    report->size += report->size == 0 ? take_progress(piece, size, report->module) : size;
    const char *last = last_record(report->data, report->size);
    if (last != NULL && last[0] == 'q' && last[1] == '\0' && !report->asked) {
        report->asked = true;
        report->size = (size_t)(last - report->data);
        return BUILDER_REPORT_ASKS;
    }
    if (last != NULL && *last == 'x')
        return BUILDER_REPORT_FAILED;
    return last != NULL && *last == 'r' ? BUILDER_REPORT_READY : BUILDER_REPORT_OPEN;
}

const char *builder_report_reason(const struct builder_report_text *report)
{
    const char *reason = last_record(report->data, report->size) + 1;
    return reason[0] != '\0' ? reason : "the builder gives no reason";
}
