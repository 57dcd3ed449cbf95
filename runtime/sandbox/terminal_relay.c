/* Copy between the caller's terminal and the container's. */
#include "sandbox/terminal_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"

/* Input waits here while the container does not read. The line discipline takes 4096 bytes and then no more.
 */
struct relay {
    int input, output, master, stop, signals;
    bool input_open, output_open;
    char pending[4096];
    size_t start, used;
};

struct caller {
    bool is_terminal;
    struct termios modes;
    sigset_t mask;
    int master_flags;
};

static int prepare_caller(struct caller *caller, int master, int *signals, struct error *err)
{
    sigset_t winch;
    sigemptyset(&winch);
    sigaddset(&winch, SIGWINCH);
    caller->master_flags = fcntl(master, F_GETFL);
    if (caller->master_flags < 0 || fcntl(master, F_SETFL, caller->master_flags | O_NONBLOCK) < 0)
        return error_set(err, -errno, "fcntl the container's terminal");
    *signals = signalfd(-1, &winch, SFD_CLOEXEC | SFD_NONBLOCK);
    if (*signals < 0)
        return error_set(err, -errno, "signalfd");
    sigprocmask(SIG_BLOCK, &winch, &caller->mask);
    caller->is_terminal = tcgetattr(STDIN_FILENO, &caller->modes) == 0;
    if (!caller->is_terminal)
        return 0;
    struct termios raw = caller->modes;
    cfmakeraw(&raw);
    if (RETRY(tcsetattr(STDIN_FILENO, TCSANOW, &raw)) < 0)
        return error_set(err, -errno, "set the terminal to raw mode");
    return 0;
}

static void restore_caller(const struct caller *caller, int master)
{
    if (caller->is_terminal)
        tcsetattr(STDIN_FILENO, TCSANOW, &caller->modes);
    sigprocmask(SIG_SETMASK, &caller->mask, NULL);
    fcntl(master, F_SETFL, caller->master_flags);
}

/* Pass the caller's window size on. A size of zero (a serial line) is not passed on. */
static void copy_size(int master)
{
    struct winsize size;
    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row != 0 && size.ws_col != 0)
        ioctl(master, TIOCSWINSZ, &size);
}

/* Send the end-of-file character: for "echo ls | run -t", the shell at the other end waits for an end of
 * file. In raw modes the character would be data, so nothing is sent. */
static void end_input(struct relay *r)
{
    struct termios modes;
    r->input_open = false;
    if (tcgetattr(r->master, &modes) == 0 && (modes.c_lflag & ICANON) != 0)
        r->pending[r->used++] = (char)modes.c_cc[VEOF];
}

/* Read input into the empty buffer. */
static void read_input(struct relay *r)
{
    r->start = r->used = 0;
    ssize_t n = RETRY(read(r->input, r->pending, sizeof(r->pending)));
    if (n > 0)
        r->used = (size_t)n;
    else if (n == 0 || errno != EAGAIN)
        end_input(r);
}

static void write_input(struct relay *r)
{
    ssize_t n = RETRY(write(r->master, r->pending + r->start, r->used - r->start));
    if (n > 0)
        r->start += (size_t)n;
    else if (n < 0 && errno != EAGAIN)
        r->start = r->used;
}

/* Copy the output that is there. Return false if there is none at present. EIO: no process has the other end
 * open. Once the container has ended, the relay does not wait for a process that opens it later. */
static bool copy_output(struct relay *r)
{
    char buf[16384];
    ssize_t n = RETRY(read(r->master, buf, sizeof(buf)));
    if (n <= 0) {
        r->output_open = n < 0 && errno == EAGAIN;
        return false;
    }
    /* Drop output that cannot be written, so that the container does not stop at it. */
    (void)io_write_full(r->output, buf, (size_t)n);
    return true;
}

static int relay_run(struct relay *r, struct error *err)
{
    for (;;) {
        bool waiting = r->start < r->used;
        short of_master = (short)((r->output_open ? POLLIN : 0) | (waiting ? POLLOUT : 0));
        struct pollfd fds[] = {
            {.fd = r->stop, .events = POLLIN},
            {.fd = r->signals, .events = POLLIN},
            {.fd = of_master != 0 ? r->master : -1, .events = of_master},
            {.fd = r->input_open && !waiting ? r->input : -1, .events = POLLIN},
        };
        if (poll(fds, 4, -1) < 0) {
            if (errno == EINTR)
                continue;
            return error_set(err, -errno, "poll");
        }
        if ((fds[2].revents & POLLOUT) != 0)
            write_input(r);
        else if ((fds[2].revents & POLLHUP) != 0)
            r->start = r->used; /* full, and no process has it open: waiting for room would never sleep */
        if ((fds[2].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
            copy_output(r);
        if (fds[1].revents != 0) {
            struct signalfd_siginfo info;
            while (read(r->signals, &info, sizeof(info)) > 0)
                copy_size(r->master);
        }
        if (fds[0].revents != 0) {
            while (copy_output(r))
                ;
            return 0;
        }
        if (fds[3].revents != 0)
            read_input(r);
    }
}

int terminal_relay_between(const struct terminal_relay_ends *ends, struct error *err)
{
    struct relay r = {.input = ends->input,
                      .output = ends->output,
                      .master = ends->master,
                      .stop = ends->stop,
                      .signals = ends->signals,
                      .input_open = true,
                      .output_open = true};
    return relay_run(&r, err);
}

int terminal_relay(int master, int stop_fd, struct error *err)
{
    struct caller caller = {0};
    cleanup_fd int signals = -1;
    int ret = prepare_caller(&caller, master, &signals, err);
    if (signals < 0)
        return ret;
    if (ret < 0) {
        restore_caller(&caller, master);
        return ret;
    }
    copy_size(master);
    const struct terminal_relay_ends ends = {STDIN_FILENO, STDOUT_FILENO, master, stop_fd, signals};
    ret = terminal_relay_between(&ends, err);
    restore_caller(&caller, master);
    return ret;
}
