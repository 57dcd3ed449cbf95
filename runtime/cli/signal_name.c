/* Names of signals. sigabbrev_np(3) would need glibc 2.32. */
#include "cli/signal_name.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <strings.h>

#include "base/str.h"

static const struct {
    const char *name;
    int number;
} signals[] = {
    {"ABRT", SIGABRT},     {"ALRM", SIGALRM}, {"BUS", SIGBUS},   {"CHLD", SIGCHLD}, {"CLD", SIGCHLD},
    {"CONT", SIGCONT},     {"FPE", SIGFPE},   {"HUP", SIGHUP},   {"ILL", SIGILL},   {"INT", SIGINT},
    {"IO", SIGIO},         {"IOT", SIGABRT},  {"KILL", SIGKILL}, {"PIPE", SIGPIPE}, {"POLL", SIGIO},
    {"PROF", SIGPROF},     {"PWR", SIGPWR},   {"QUIT", SIGQUIT}, {"SEGV", SIGSEGV}, {"STOP", SIGSTOP},
    {"SYS", SIGSYS},       {"TERM", SIGTERM}, {"TRAP", SIGTRAP}, {"TSTP", SIGTSTP}, {"TTIN", SIGTTIN},
    {"TTOU", SIGTTOU},     {"URG", SIGURG},   {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"VTALRM", SIGVTALRM},
    {"WINCH", SIGWINCH},   {"XCPU", SIGXCPU}, {"XFSZ", SIGXFSZ},
#ifdef SIGSTKFLT
    {"STKFLT", SIGSTKFLT},
#endif
};

/* Parse "RTMIN", "RTMIN+n", "RTMAX" or "RTMAX-n". */
static int parse_realtime(const char *name)
{
    static const size_t length = sizeof("RTMIN") - 1;
    uint64_t distance = 0, most = (uint64_t)(SIGRTMAX - SIGRTMIN);
    char sign;
    if (strncasecmp(name, "RTMIN", length) == 0)
        sign = '+';
    else if (strncasecmp(name, "RTMAX", length) == 0)
        sign = '-';
    else
        return -EINVAL;
    const char *rest = name + length;
    if (*rest != '\0' && (*rest != sign || str_to_u64(rest + 1, most, &distance) < 0))
        return -EINVAL;
    return sign == '+' ? SIGRTMIN + (int)distance : SIGRTMAX - (int)distance;
}

int signal_parse(const char *text)
{
    uint64_t number;
    if (text[0] >= '0' && text[0] <= '9')
        return str_to_u64(text, (uint64_t)SIGRTMAX, &number) < 0 ? -EINVAL : (int)number;
    const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (strcasecmp(signals[i].name, name) == 0)
            return signals[i].number;
    return parse_realtime(name);
}
