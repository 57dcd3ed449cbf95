/* The error object: what failed, on which thing, why. The function that knows the facts fills it, its callers
 * add context, and main prints it once. */
#pragma once

#include <stddef.h>

/* Bounded, so that a container's text cannot grow the engine's log (CVE-2022-1708 class). */
#define ERROR_TEXT_MAX 1024

/* The kinds of errors and of reasons for a cold start, by names that programs read instead of the text: in
 * the status file and the JSON log. See contrib/docs/pages/reference/exit-codes.md. */
#define ERROR_KINDS(X)                                                                                       \
    X(ERROR_OTHER, "other")                                                                                  \
    X(ERROR_NOT_PERMITTED, "not-permitted")                                                                  \
    X(ERROR_DISK, "disk")                                                                                    \
    X(ERROR_TOO_LARGE, "too-large")                                                                          \
    X(ERROR_RESOURCES, "resources")                                                                          \
    X(ERROR_NO_NAMESPACES, "no-namespaces")                                                                  \
    X(ERROR_NO_ID_MAPPING, "no-id-mapping")                                                                  \
    X(ERROR_PROC_MASKED, "proc-masked")                                                                      \
    X(ERROR_NO_WORKDIR, "no-workdir")                                                                        \
    X(ERROR_NO_CGROUP2, "no-cgroup2")                                                                        \
    X(ERROR_NO_CONTROLLER, "no-controller")                                                                  \
    X(ERROR_CGROUP_READ_ONLY, "cgroup-read-only")                                                            \
    X(ERROR_CGROUP_NOT_DELEGATED, "cgroup-not-delegated")                                                    \
    X(ERROR_LIMITS_TOO_SMALL, "limits-too-small")                                                            \
    X(ERROR_WARM_OFF, "warm-off")                                                                            \
    X(ERROR_FIRST_RUN, "first-run")                                                                          \
    X(ERROR_BEING_MADE, "being-made")                                                                        \
    X(ERROR_NOT_RESTORABLE, "not-restorable")                                                                \
    X(ERROR_IMPORTS_REFUSED, "imports-refused")                                                              \
    X(ERROR_NOT_MADE, "not-made")                                                                            \
    X(ERROR_EXPIRED, "expired")                                                                              \
    X(ERROR_NO_STORE, "no-store")                                                                            \
    X(ERROR_SNAPSHOT_UNFIT, "snapshot-unfit")

#define ERROR_KIND_ROW(kind, name) kind,
enum error_kind { ERROR_KINDS(ERROR_KIND_ROW) ERROR_KIND_COUNT };

struct error {
    int code; /* negative errno, or 0 if no error was set */
    enum error_kind kind;
    unsigned detail;           /* offset of error_detail in the text */
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

/* Set the kind of the error, whose text is complete but for context. Return `code`. err may be NULL. */
int error_classify(struct error *err, enum error_kind kind, int code);

/* Return the kind that a negative errno alone tells: not permitted, of a disk, too large, or a lack of
 * memory, descriptors or processes. Return `other` for any other one. */
enum error_kind error_kind_by_code(int code, enum error_kind other);

/* Return the name of the kind; that of an error of ERROR_OTHER is the one of error_kind_by_code. */
const char *error_kind_name(enum error_kind kind, int code);

/* Return the kind of this name, ERROR_OTHER for an unknown one. */
enum error_kind error_kind_of(const char *name);

/* Return the text, of a classified error without the context that callers have added. */
const char *error_detail(const struct error *err);

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
