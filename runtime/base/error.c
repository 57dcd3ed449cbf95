/* Error texts: formatting, context, and the words of reasons. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* These are the functions themselves, without the wrappers for the analyser. */
#undef error_set
#undef error_text
#undef error_wrap

const char *error_reason(int code)
{
    switch (abs(code)) {
    case ENOENT:
        return "does not exist";
    case EACCES:
        return "access denied";
    case EPERM:
        return "not permitted";
    default:
        return strerror(abs(code));
    }
}

const char *error_engine_reason(int code)
{
    switch (abs(code)) {
    case ENOENT:
        return "no such file or directory";
    case EACCES:
        return "permission denied";
    default:
        return strerror(abs(code));
    }
}

static const char *const kind_names[] = {
#define ERROR_KIND_NAME(kind, name) [kind] = (name),
    ERROR_KINDS(ERROR_KIND_NAME)};

int error_classify(struct error *err, enum error_kind kind, int code)
{
    if (err != NULL) {
        err->kind = kind;
        err->detail = 0;
    }
    return code;
}

/* The kinds that an errno alone tells. */
static const struct {
    int code;
    enum error_kind kind;
} kinds_of_codes[] = {
    {-EPERM, ERROR_NOT_PERMITTED},
    {-EACCES, ERROR_NOT_PERMITTED},
    {-ENOSPC, ERROR_DISK},
    {-EDQUOT, ERROR_DISK},
    {-EIO, ERROR_DISK},
    {-EROFS, ERROR_DISK},
    {-EFBIG, ERROR_TOO_LARGE},
    {-ENOMEM, ERROR_RESOURCES},
    {-EMFILE, ERROR_RESOURCES},
    {-ENFILE, ERROR_RESOURCES},
    {-EAGAIN, ERROR_RESOURCES},
};

enum error_kind error_kind_by_code(int code, enum error_kind other)
{
    for (size_t i = 0; i < sizeof(kinds_of_codes) / sizeof(kinds_of_codes[0]); i++)
        if (kinds_of_codes[i].code == code)
            return kinds_of_codes[i].kind;
    return other;
}

const char *error_kind_name(enum error_kind kind, int code)
{
    if (kind == ERROR_OTHER)
        kind = error_kind_by_code(code, kind);
    return kind_names[(unsigned)kind < ERROR_KIND_COUNT ? kind : ERROR_OTHER];
}

enum error_kind error_kind_of(const char *name)
{
    for (unsigned i = 0; i < ERROR_KIND_COUNT; i++)
        if (strcmp(kind_names[i], name) == 0)
            return (enum error_kind)i;
    return ERROR_OTHER;
}

const char *error_detail(const struct error *err)
{
    return err->text + (err->detail < strlen(err->text) ? err->detail : 0);
}

__attribute__((format(printf, 4, 0))) static int set_text(struct error *err, int code, const char *reason,
                                                          const char *fmt, va_list ap)
{
    if (code == 0)
        code = -EINVAL;
    if (err == NULL)
        return code;
    err->code = code;
    error_classify(err, ERROR_OTHER, code);
    int n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
    if (reason != NULL && n >= 0 && (size_t)n < sizeof(err->text))
        snprintf(err->text + n, sizeof(err->text) - (size_t)n, ": %s", reason);
    return code;
}

int error_set(struct error *err, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    code = set_text(err, code, code < 0 && code != -EINVAL ? error_reason(code) : NULL, fmt, ap);
    va_end(ap);
    return code;
}

int error_text(struct error *err, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    code = set_text(err, code, NULL, fmt, ap);
    va_end(ap);
    return code;
}

int error_wrap(struct error *err, const char *fmt, ...)
{
    if (err == NULL)
        return -EINVAL;
    char inner[ERROR_TEXT_MAX];
    memcpy(inner, err->text, sizeof(inner));
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof(err->text)) {
        snprintf(err->text + n, sizeof(err->text) - (size_t)n, ": %.*s", (int)sizeof(inner) - n, inner);
        if (err->kind != ERROR_OTHER)
            err->detail += (unsigned)n + 2;
    }
    return err->code;
}
