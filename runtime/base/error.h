/* The one error object: what failed, on which thing, why. Made where the facts are, given context on the
 * way up, printed once by main. */
#ifndef PYSBX_BASE_ERROR_H
#define PYSBX_BASE_ERROR_H

#include <stddef.h>

/* Bounded so that nothing a container says can grow the engine's log (CVE-2022-1708 class). */
#define ERROR_TEXT_MAX 1024

struct error {
    int code;                  /* negative errno, 0 while no error was set */
    char text[ERROR_TEXT_MAX]; /* lower case, no full stop; complete with the system's reason */
};

/* Set *err to the formatted text. With a negative errno in `code` the reason is appended as ": reason";
 * with -EINVAL (bad input: the text itself says why) or a code of 0 (becomes -EINVAL) nothing is appended.
 * Reasons are worded so that engines which search texts for "no such file" or "permission denied" do not
 * take an inner failure for a missing or refused program: see error_reason. err may be NULL.
 * Returns the code. */
int error_set(struct error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same, without a reason appended, whatever the code. */
int error_text(struct error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Put "context: " before the text. Returns the code, so that `return error_wrap(err, …)` passes it on. */
int error_wrap(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The reason for a (positive or negative) errno in words that no engine mistakes for a problem with the
 * container's program: "does not exist" for ENOENT, "access denied" for EACCES, "not permitted" for EPERM;
 * strerror otherwise. */
const char *error_reason(int code);

/* The reason for an errno in the very words by which engines tell that the container's program is missing or
 * refused. In lower case, as Go's errors are: docker(1) looks for those, where Podman takes any case. */
const char *error_engine_reason(int code);

/* The analyser reads one file at a time and would follow an error that is 0: it is told that none is. */
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
