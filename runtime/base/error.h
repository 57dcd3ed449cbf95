/* The error object: what failed, on which thing, why. The function that knows the facts fills it, its callers
 * add context, and main prints it once. */
#ifndef PYSBX_BASE_ERROR_H
#define PYSBX_BASE_ERROR_H

#include <stddef.h>

/* Bounded, so that a container's text cannot grow the engine's log (CVE-2022-1708 class). */
#define ERROR_TEXT_MAX 1024

struct error {
    int code;                  /* negative errno, or 0 if no error was set */
    char text[ERROR_TEXT_MAX]; /* lower case, no full stop; ends with the system's reason */
};

/* Set *err to the formatted text, and return the code. For a negative errno in `code`, ": reason" is appended
 * (error_reason). For -EINVAL nothing is appended: the input is bad, and the text itself says why. A code of
 * 0 becomes -EINVAL. err may be NULL. The words of the reasons matter: some engines search texts for "no such
 * file" or "permission denied", and must not take an inner failure for a missing or refused program. */
int error_set(struct error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Set *err to the formatted text without a reason, for any code. Returns the code, and 0 becomes -EINVAL. err
 * may be NULL. */
int error_text(struct error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Put "context: " before the text. Return the code, so that `return error_wrap(err, …)` passes it on. */
int error_wrap(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Return the reason for a positive or negative errno, in words that no engine mistakes for a problem with the
 * container's program. They are "does not exist" for ENOENT, "access denied" for EACCES, "not permitted" for
 * EPERM, and those of strerror(3) for any other. */
const char *error_reason(int code);

/* Return the reason for an errno in the words by which engines detect that the container's program is missing
 * or refused. It is in lower case like Go's errors, because docker(1) searches for those. Podman ignores the
 * case. */
const char *error_engine_reason(int code);

/* The analyser reads one file at a time, and would follow paths on which an error is 0. This tells it that
 * none is. */
#ifdef __clang_analyzer__
static inline int error_negative(int code)
{
    if (code >= 0)
        __builtin_unreachable();
    return code;
}
#define error_set(...)  error_negative(error_set(__VA_ARGS__))
#define error_text(...) error_negative(error_text(__VA_ARGS__))
#define error_wrap(...) error_negative(error_wrap(__VA_ARGS__))
#endif

#endif
