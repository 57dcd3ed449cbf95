/* A unit test is one program that prints TAP (testanything.org): any number of ok(), is_str(), is_int(),
 * then `return done_testing();`. Names are printf formats. A failed check prints its position and the
 * actual value, and later checks still run. */
#pragma once

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int unit_checks, unit_failures;

/* The check itself: counts, prints "ok N - name" or "not ok N - name" with its position. Return the
 * condition. */
__attribute__((format(printf, 4, 5))) static inline void unit_check(bool condition, const char *file,
                                                                    int line, const char *name, ...)
{
    va_list ap;
    va_start(ap, name);
    printf("%sok %d - ", condition ? "" : "not ", ++unit_checks);
    vprintf(name, ap);
    putchar('\n');
    va_end(ap);
    if (!condition) {
        unit_failures++;
        printf("#   at %s:%d\n", file, line);
    }
    fflush(stdout);
}

/* Print a line that explains a failure to its reader. */
__attribute__((format(printf, 1, 2))) static inline void diag(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("#   ");
    vprintf(fmt, ap);
    putchar('\n');
    va_end(ap);
}

/* ok(condition, name, …): true. The value of these macros is whether the check succeeded. */
#define ok(condition, ...)                                                                                   \
    ({                                                                                                       \
        bool unit_condition = (condition);                                                                   \
        unit_check(unit_condition, __FILE__, __LINE__, __VA_ARGS__);                                         \
        unit_condition;                                                                                      \
    })

/* is_str(got, expected, name, …): equal strings; NULL equals only NULL. */
#define is_str(got, expected, ...)                                                                           \
    ({                                                                                                       \
        const char *unit_got = (got);                                                                        \
        const char *unit_expected = (expected);                                                              \
        bool unit_same = unit_got == unit_expected || (unit_got != NULL && unit_expected != NULL &&          \
                                                       strcmp(unit_got, unit_expected) == 0);                \
        if (!ok(unit_same, __VA_ARGS__)) {                                                                   \
            diag("got      '%s'", unit_got != NULL ? unit_got : "(null)");                                   \
            diag("expected '%s'", unit_expected != NULL ? unit_expected : "(null)");                         \
        }                                                                                                    \
        unit_same;                                                                                           \
    })

/* is_int(got, expected, name, …): equal integers of any type up to 64 bits. */
#define is_int(got, expected, ...)                                                                           \
    ({                                                                                                       \
        intmax_t unit_got = (intmax_t)(got), unit_expected = (intmax_t)(expected);                           \
        if (!ok(unit_got == unit_expected, __VA_ARGS__)) {                                                   \
            diag("got      %" PRIdMAX, unit_got);                                                            \
            diag("expected %" PRIdMAX, unit_expected);                                                       \
        }                                                                                                    \
        unit_got == unit_expected;                                                                           \
    })

/* Run a check that changes its process in a child. 0 is success, any other value is the position. */
static inline void in_child(int (*check)(void), const char *name)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(check());
    int status = -1;
    waitpid(pid, &status, 0);
    is_int(WIFEXITED(status) ? WEXITSTATUS(status) : status, 0, "%s", name);
}

/* skip(reason, …): a check that this machine cannot run. */
#define skip(...)                                                                                            \
    do {                                                                                                     \
        printf("ok %d # SKIP ", ++unit_checks);                                                              \
        printf(__VA_ARGS__);                                                                                 \
        putchar('\n');                                                                                       \
    } while (0)

/* bail_out(reason, …): the test itself cannot continue. */
#define bail_out(...)                                                                                        \
    do {                                                                                                     \
        printf("Bail out! ");                                                                                \
        printf(__VA_ARGS__);                                                                                 \
        putchar('\n');                                                                                       \
        exit(1);                                                                                             \
    } while (0)

/* The plan, and main's result: 0 if every check passed. */
static inline int done_testing(void)
{
    printf("1..%d\n", unit_checks);
    return unit_failures == 0 ? 0 : 1;
}
