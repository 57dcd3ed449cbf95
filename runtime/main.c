/* The program: find the command in a table, run it, and report its error. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"

#define COMMAND_ADDRESS(name) &command_##name,
static const struct command *const commands[] = {COMMANDS(COMMAND_ADDRESS) NULL};

/* Open /dev/null for each missing standard stream. Otherwise the first file that is opened would take its
 * place, and messages or a container's output would be written to that file. */
static int ensure_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) != fd)
            return -1;
    return 0;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    int exit_code;
    if (argc < 1 || ensure_standard_streams() < 0)
        return 1;
    /* If the parent ignores SIGCHLD, this process inherits that, and the kernel would reap its children. With
     * SIGPIPE, a reader that closes the pipe of the messages would kill the runtime at any point, and so
     * would the caller's RLIMIT_FSIZE with SIGXFSZ: setrlimit(2). */
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (command_dispatch(commands, argc, argv, &exit_code, &err) < 0)
        log_fatal(&err);
    return exit_code;
}
