/* Signals and intervals as the command line spells them. */
#include <errno.h>
#include <limits.h>
#include <signal.h>

#include "cli/interval.h"
#include "cli/signal_name.h"
#include "unit.h"

struct sample {
    const char *text;
    int value;
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void test_signals(void)
{
    const struct sample samples[] = {
        {"9", SIGKILL},
        {"0", 0},
        {"64", 64},
        {"KILL", SIGKILL},
        {"SIGKILL", SIGKILL},
        {"sigkill", SIGKILL},
        {"kill", SIGKILL},
        {"SigTerm", SIGTERM},
        {"WINCH", SIGWINCH},
        {"CLD", SIGCHLD},
        {"RTMIN", SIGRTMIN},
        {"SIGRTMIN+3", SIGRTMIN + 3},
        {"rtmax-1", SIGRTMAX - 1},
        {"RTMAX", SIGRTMAX},
        {"65", -EINVAL},
        {"-9", -EINVAL},
        {"+9", -EINVAL},
        {" 9", -EINVAL},
        {"9x", -EINVAL},
        {"", -EINVAL},
        {"SIG", -EINVAL},
        {"SIGSIGKILL", -EINVAL},
        {"NONSENSE", -EINVAL},
        {"RTMIN-1", -EINVAL},
        {"RTMIN+", -EINVAL},
        {"RTMIN+31", -EINVAL},
        {"RTMAX+1", -EINVAL},
        {"RTMIN3", -EINVAL},
        {"4294967305", -EINVAL},
    };
    for (size_t i = 0; i < COUNT(samples); i++)
        is_int(signal_parse(samples[i].text), samples[i].value, "signal '%s'", samples[i].text);
}

static void test_intervals(void)
{
    const struct sample samples[] = {
        {"5s", 5000},
        {"500ms", 500},
        {"2m", 120000},
        {"1h", 3600000},
        {"5", 5000},
        {"2147483s", 2147483000},
        {"2147483647ms", INT_MAX},
        {"0s", -EINVAL},
        {"0", -EINVAL},
        {"", -EINVAL},
        {"s", -EINVAL},
        {"-1s", -EINVAL},
        {"1.5s", -EINVAL},
        {"5 s", -EINVAL},
        {"5d", -EINVAL},
        {"2147484s", -EINVAL},
        {"99999999999999999999s", -EINVAL},
    };
    for (size_t i = 0; i < COUNT(samples); i++)
        is_int(interval_parse(samples[i].text), samples[i].value, "interval '%s'", samples[i].text);
}

int main(void)
{
    test_signals();
    test_intervals();
    return done_testing();
}
