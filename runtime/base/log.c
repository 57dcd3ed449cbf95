/* Log targets and formats. One record is one write(2), so that records of concurrent commands never mix. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/str.h"

#define ESCAPED_TEXT_MAX STR_ESCAPED_MAX(ERROR_TEXT_MAX)

enum target { TARGET_STDERR, TARGET_FILE, TARGET_SYSLOG, TARGET_JOURNAL };

static struct {
    enum target target;
    int fd;
    const char *identifier;
    bool json;
    enum log_level level;
    struct timespec step; /* the end of the previous one */
} log_state = {.fd = -1};

static const struct {
    const char *name;
    int priority; /* syslog(3) */
} levels[] = {
    [LOG_LEVEL_ERROR] = {"error", LOG_ERR},
    [LOG_LEVEL_WARNING] = {"warning", LOG_WARNING},
    [LOG_LEVEL_INFO] = {"info", LOG_INFO},
    [LOG_LEVEL_DEBUG] = {"debug", LOG_DEBUG},
};

static int open_journal(struct error *err)
{
    cleanup_fd int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_set(err, -errno, "make a socket for the journal");
    const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/run/systemd/journal/socket"};
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return error_set(err, -errno, "connect to the journal at '%s'", address.sun_path);
    log_state.fd = fd_steal(&fd);
    return 0;
}

int log_open(const struct log_options *options, struct error *err)
{
    log_state.json = options->json;
    log_state.level = options->level;
    if (log_state.level >= LOG_LEVEL_DEBUG)
        clock_gettime(CLOCK_MONOTONIC, &log_state.step);
    const char *target = options->target, *rest;
    if (target == NULL || target[0] == '\0')
        return 0;
    if ((rest = str_after(target, "syslog:")) != NULL) {
        log_state.target = TARGET_SYSLOG;
        log_state.identifier = rest[0] != '\0' ? rest : "pysbx-runtime";
        openlog(log_state.identifier, LOG_PID | LOG_NDELAY, LOG_USER);
        return 0;
    }
    if ((rest = str_after(target, "journald:")) != NULL) {
        log_state.identifier = rest[0] != '\0' ? rest : "pysbx-runtime";
        int ret = open_journal(err);
        if (ret < 0)
            return ret;
        log_state.target = TARGET_JOURNAL;
        return 0;
    }
    rest = str_after(target, "file:");
    const char *path = rest != NULL ? rest : target;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0)
        return error_set(err, -errno, "open log file '%s'", path);
    log_state.fd = fd;
    log_state.target = TARGET_FILE;
    return 0;
}

/* Escape a JSON string that has no control characters. */
static void escape_json(char *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            *out++ = '\\';
        *out++ = *text;
    }
    *out = '\0';
}

/* `err`: the error of the record, or NULL. */
static size_t format_record(char *out, size_t size, enum log_level level, const char *text,
                            const struct error *err)
{
    struct timespec now;
    struct tm utc;
    char when[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &utc);
    int n;
    if (log_state.json) {
        char escaped[2 * ESCAPED_TEXT_MAX], fields[2 * ESCAPED_TEXT_MAX + 64] = "";
        if (err != NULL) {
            char detail[ESCAPED_TEXT_MAX];
            str_escape_hidden(detail, sizeof(detail), error_detail(err));
            escape_json(escaped, detail);
            snprintf(fields, sizeof(fields), ",\"code\":\"%s\",\"detail\":\"%s\"",
                     error_kind_name(err->kind, err->code), escaped);
        }
        escape_json(escaped, text);
        n = snprintf(out, size, "{\"msg\":\"%s\",\"level\":\"%s\",\"time\":\"%s.%09ldZ\"%s}\n", escaped,
                     levels[level].name, when, now.tv_nsec, fields);
    } else {
        n = snprintf(out, size, "%s.%06ldZ: %s: %s\n", when, now.tv_nsec / 1000, levels[level].name, text);
    }
    return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

static void write_journal(enum log_level level, const char *text)
{
    char record[ESCAPED_TEXT_MAX + 256];
    int n = snprintf(record, sizeof(record), "MESSAGE=%s\nPRIORITY=%d\nSYSLOG_IDENTIFIER=%s\n", text,
                     levels[level].priority, log_state.identifier);
    if (n > 0)
        (void)!send(log_state.fd, record, (size_t)n < sizeof(record) ? (size_t)n : sizeof(record) - 1,
                    MSG_NOSIGNAL);
}

static void write_escaped(enum target target, enum log_level level, const char *message,
                          const struct error *err)
{
    /* Escape before any format is applied, because an engine decodes the JSON and prints the message on a
     * terminal. */
    char text[ESCAPED_TEXT_MAX], record[4 * ESCAPED_TEXT_MAX + 512];
    str_escape_hidden(text, sizeof(text), message);
    switch (target) {
    case TARGET_STDERR: {
        int n = snprintf(record, sizeof(record), "pysbx-runtime: %s\n", text);
        (void)io_write_full(STDERR_FILENO, record, (size_t)n);
        break;
    }
    case TARGET_FILE:
        (void)io_write_full(log_state.fd, record, format_record(record, sizeof(record), level, text, err));
        break;
    case TARGET_SYSLOG:
        syslog(levels[level].priority, "%s", text);
        break;
    case TARGET_JOURNAL:
        write_journal(level, text);
        break;
    }
}

void log_stderr(const char *text)
{
    write_escaped(TARGET_STDERR, LOG_LEVEL_ERROR, text, NULL);
}

void log_fatal(const struct error *err)
{
    if (log_state.target != TARGET_STDERR)
        write_escaped(log_state.target, LOG_LEVEL_ERROR, err->text, err);
    log_stderr(err->text);
}

void log_message(enum log_level level, const char *fmt, ...)
{
    if (level > log_state.level)
        return;
    char text[ERROR_TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    write_escaped(log_state.target, level, text, NULL);
}

void log_notice(const char *fmt, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (log_state.target == TARGET_FILE && log_state.json && log_state.level < LOG_LEVEL_WARNING)
        log_stderr(text);
    else
        write_escaped(log_state.target, LOG_LEVEL_WARNING, text, NULL);
}

void log_step(const char *what, const char *object)
{
    if (log_state.level < LOG_LEVEL_DEBUG)
        return;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long microseconds =
        (now.tv_sec - log_state.step.tv_sec) * 1000000 + (now.tv_nsec - log_state.step.tv_nsec) / 1000;
    bool named = object != NULL && object[0] != '\0';
    log_debug("step: %s%s%s%s: %ld us", what, named ? " '" : "", named ? object : "", named ? "'" : "",
              microseconds);
    clock_gettime(CLOCK_MONOTONIC, &log_state.step);
}
