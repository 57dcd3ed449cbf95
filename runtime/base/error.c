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

__attribute__((format(printf, 4, 0))) static int set_text(struct error *err, int code, const char *reason,
                                                          const char *fmt, va_list ap)
{
    if (code == 0)
        code = -EINVAL;
    if (err == NULL)
        return code;
    err->code = code;
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
    if (n >= 0 && (size_t)n < sizeof(err->text))
        snprintf(err->text + n, sizeof(err->text) - (size_t)n, ": %.*s", (int)sizeof(inner) - n, inner);
    return err->code;
}
