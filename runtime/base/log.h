/* Where messages go: the --log file and standard error, as text or as one JSON record. */
#ifndef PYSBX_BASE_LOG_H
#define PYSBX_BASE_LOG_H

#include <stdbool.h>

struct error;

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

struct log_options {
    const char *target; /* --log: a path or "file:PATH", "syslog:IDENT", "journald:IDENT"; NULL: standard
                           error only */
    bool json;          /* --log-format=json: {"msg":…,"level":…,"time":RFC 3339} */
    enum log_level level;
};

/* Open the target. 0 or negative errno. Call once, before anything is logged. */
int log_open(const struct log_options *options, struct error *err);

/* The fatal error: one record to the target and one write(2) to standard error, last thing before exit.
 * Engines parse the JSON file as a single object, so nothing else is ever written there unless --log-level
 * asks for more. */
void log_fatal(const struct error *err);

/* A message of lesser weight; dropped unless its level was asked for. Goes to the target, else to standard
 * error. */
void log_message(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A warning for which no --log-level is needed: about what the caller's configuration does not get. An engine
 * parses a log file in JSON as one object, and that has to remain the error: without --log-level the warning
 * goes to standard error instead, which engines keep with the container's own. */
void log_notice(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define log_warning(...) log_message(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_debug(...)   log_message(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* True when debug messages are wanted: for facts that cost something to gather. */
bool log_debugging(void);

#endif
