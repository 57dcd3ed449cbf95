/* The signals of a process that becomes part of a container. */
#include "container/child/signals.h"

#include <signal.h>
#include <stddef.h>

void signals_reset(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    for (int sig = 1; sig < SIGRTMIN; sig++)
        sigaction(sig, &action, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}
