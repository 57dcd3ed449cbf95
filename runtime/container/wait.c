/* The foreground. One epoll descriptor watches the end of the process and the runtime's signals, while the
 * terminal is relayed. */
#include "container/wait.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"
#include "sandbox/terminal_relay.h"

/* Set the signals that are forwarded. Not among them are the kernel's reports of the runtime's own faults,
 * and job control of its own terminal. The relay handles the terminal's size (SIGWINCH), and children are the
 * runtime's to reap. */
static void forwarded(sigset_t *set)
{
    static const int kept[] = {SIGSEGV, SIGBUS,  SIGILL,  SIGFPE,  SIGABRT, SIGTRAP,
                               SIGSYS,  SIGPIPE, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH};
    sigfillset(set);
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        sigdelset(set, kept[i]);
}

void wait_block_signals(struct wait_signals *signals)
{
    sigset_t set;
    forwarded(&set);
    sigprocmask(SIG_BLOCK, &set, &signals->before);
    signals->blocked = true;
}

void wait_restore_signals(struct wait_signals *signals)
{
    if (signals->blocked)
        sigprocmask(SIG_SETMASK, &signals->before, NULL);
    signals->blocked = false;
}

static int watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

/* Reap all children that have ended. Return true if the process was among them. */
static bool reap(pid_t pid, int *status)
{
    bool ended = false;
    int one;
    for (pid_t who; (who = waitpid(-1, &one, WNOHANG)) > 0;)
        if (who == pid) {
            *status = one;
            ended = true;
        }
    return ended;
}

static void forward_pending(int signals, int pidfd)
{
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        if (info.ssi_signo != SIGCHLD)
            (void)sys_pidfd_send_signal(pidfd, (int)info.ssi_signo, NULL, 0);
}

/* Stop watching a process that has ended and cannot be reaped. Another process of its container traces it;
 * the tracer is the first to reap it (ptrace(2)), and may never do so. SIGCHLD tells when the tracer has done
 * it. Otherwise epoll would report the descriptor all the time. */
static void unwatch_ended(int epoll, int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    if (poll(&p, 1, 0) > 0)
        (void)epoll_ctl(epoll, EPOLL_CTL_DEL, pidfd, NULL);
}

/* Answer the question if it has come, or kill the process if its caller has gone. */
static void serve_question(struct wait_question *question, int epoll, int pidfd)
{
    char byte;
    ssize_t n = RETRY(recv(question->socket, &byte, 1, MSG_DONTWAIT));
    if (n < 0 && errno == EAGAIN)
        return;
    if (n == 1) {
        byte = question->answer != NULL && question->answer(question->arg) ? WAIT_YES : WAIT_NO;
        (void)RETRY(send(question->socket, &byte, 1, MSG_NOSIGNAL));
        return;
    }
    (void)sys_pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
    (void)epoll_ctl(epoll, EPOLL_CTL_DEL, question->socket, NULL);
    fd_close(&question->socket);
}

int wait_for_process(pid_t pid, int pidfd, int master, struct wait_question *question, int *status,
                     struct error *err)
{
    sigset_t set;
    forwarded(&set);
    cleanup_fd int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    cleanup_fd int epoll = epoll_create1(EPOLL_CLOEXEC);
    const bool asked = question != NULL && question->socket >= 0;
    if (signals < 0 || epoll < 0 || watch(epoll, signals) < 0 || watch(epoll, pidfd) < 0 ||
        (asked && watch(epoll, question->socket) < 0))
        return error_set(err, -errno, "watch the container's process");
    *status = 0;
    while (!reap(pid, status)) {
        if (master >= 0) {
            int ret = terminal_relay(master, epoll, err);
            if (ret < 0)
                return ret;
        } else {
            struct pollfd p = {.fd = epoll, .events = POLLIN};
            if (poll(&p, 1, -1) < 0 && errno != EINTR)
                return error_set(err, -errno, "wait for the container's process");
        }
        if (asked && question->socket >= 0)
            serve_question(question, epoll, pidfd);
        forward_pending(signals, pidfd);
        unwatch_ended(epoll, pidfd);
    }
    /* Relay the output since the last relay, or since before the terminal was watched. */
    return master >= 0 ? terminal_relay(master, pidfd, err) : 0;
}

int wait_exit_code(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
