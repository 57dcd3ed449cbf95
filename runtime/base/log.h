/* Messages: to the log file of --log, the syslog, the journal or standard error, as text or as one JSON
 * record. Each message is one line. Its hidden characters, which an image may have chosen, are escaped here
 * and nowhere else: str_escape_hidden. */
#pragma once

#include <stdbool.h>

struct error;

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

struct log_options {
    const char *target; /* --log: a path or "file:PATH", "syslog:IDENT", "journald:IDENT"; NULL: standard
                           error only */
    bool json;          /* --log-format=json: {"msg":…,"level":…,"time":RFC 3339}, "code" and "detail" */
    enum log_level level;
};

/* Open the target. 0 or negative errno. Call it once, before the first message. */
int log_open(const struct log_options *options, struct error *err);

/* Report the fatal error: one record to the target and one write(2) to standard error, as the last thing
 * before exit. Engines parse the JSON file as a single object, so nothing else is written there unless
 * --log-level asks for more. */
void log_fatal(const struct error *err);

/* Write an error's text to standard error only: for a process that no longer has the target. */
void log_stderr(const char *text);

/* Write a message of this level to the target, or to standard error if there is none. It is dropped unless
 * --log-level asks for the level. */
void log_message(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Warn, without any --log-level, that a part of the caller's configuration is not applied. An engine parses a
 * log file in JSON as one object, which has to remain the error. So without --log-level the warning goes to
 * standard error, which engines keep together with the container's own. */
void log_notice(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define log_warning(...) log_message(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_debug(...)   log_message(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* With --debug, log that a step of create or start is done, with its object ("" or NULL: none). The line has
 * the microseconds since the previous step of this process, or since log_open. The container's first process
 * logs its own steps, until it leaves the host. */
void log_step(const char *what, const char *object);
