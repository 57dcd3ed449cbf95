/* sandbox/terminal.h and terminal_relay.h: the path of a terminal from plan to engine, and the relay. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "sandbox/terminal.h"
#include "sandbox/terminal_relay.h"
#include "spec/spec.h"
#include "unit.h"

static struct error error;

static void test_plan(void)
{
    struct terminal_plan plan;
    const struct spec_process without = {0};
    const struct spec_process with = {.terminal = true, .console_size = {.height = 24, .width = 80}};
    const struct spec_process huge = {.terminal = true, .console_size = {.height = 65536, .width = 80}};
    ok(terminal_plan(&without, NULL, true, &plan, &error) == 0 && !plan.wanted && plan.socket < 0,
       "no terminal is asked for");
    is_int(terminal_plan(&without, "/tmp/socket", true, &plan, &error), -EINVAL,
           "a console socket without a terminal is refused");
    is_int(terminal_plan(&with, NULL, false, &plan, &error), -EINVAL,
           "a terminal in the background needs a console socket");
    is_int(terminal_plan(&huge, NULL, true, &plan, &error), -EINVAL, "65536 rows are refused");
    is_int(terminal_plan(&with, "/nonexistent/socket", false, &plan, &error), -ENOENT,
           "a console socket that is not there");
    ok(strstr(error.text, "'/nonexistent/socket'") != NULL, "… is named");
    ok(terminal_plan(&with, NULL, true, &plan, &error) == 0 && plan.rows == 24 && plan.columns == 80,
       "a terminal in the foreground, with its size");
    terminal_release(&plan);
    ok(plan.socket < 0 && plan.relay_socket < 0, "released");
}

/* Listen on `name` in `dir`, by a relative path, which is short. */
static int listen_in(const char *dir, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    cleanup_fd int back = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(address.sun_path, name, strlen(name));
    if (chdir(dir) < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 1) < 0 ||
        fchdir(back) < 0)
        bail_out("listen: %s", strerror(errno));
    return fd;
}

static void test_console_socket(void)
{
    char root[] = "/tmp/test-terminal.XXXXXX", dir[256], path[300];
    if (mkdtemp(root) == NULL)
        bail_out("mkdtemp: %s", strerror(errno));
    snprintf(dir, sizeof(dir), "%s/%0150d", root, 0);
    mkdir(dir, 0700);
    snprintf(path, sizeof(path), "%s/console", dir);
    cleanup_fd int listening = listen_in(dir, "console");
    const struct spec_process process = {.terminal = true};
    struct terminal_plan plan;
    ok(terminal_plan(&process, path, false, &plan, &error) == 0,
       "a console socket whose path is longer than sun_path");
    cleanup_fd int engine = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    cleanup_fd int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    is_int(terminal_send_master(plan.socket, master, &error), 0, "the master is sent");
    cleanup_fd int received = terminal_receive_master(engine, &error);
    struct stat sent, got;
    ok(received >= 0 && fstat(master, &sent) == 0 && fstat(received, &got) == 0 &&
           sent.st_ino == got.st_ino && sent.st_rdev == got.st_rdev,
       "… and arrives as one descriptor");
    terminal_release(&plan);
    is_int(terminal_receive_master(engine, &error), -ECONNRESET, "the end of the other side is an error");
    unlink(path);
    rmdir(dir);
    rmdir(root);
}

/* With the host's "/" as root. exec uses the container's. */
static void test_setup(void)
{
    const struct terminal_plan plan = {
        .wanted = true, .socket = -1, .relay_socket = -1, .rows = 7, .columns = 9};
    cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int master = -1, slave = -1;
    if (access("/dev/pts/ptmx", R_OK | W_OK) < 0) {
        skip("no access to /dev/pts/ptmx");
        return;
    }
    if (!ok(terminal_setup(&plan, root, getuid(), false, &master, &slave, &error) == 0,
            "a terminal of the devpts below a root"))
        bail_out("%s", error.text);
    struct winsize size;
    ok(ioctl(slave, TIOCGWINSZ, &size) == 0 && size.ws_row == 7 && size.ws_col == 9, "… has its size");
    ok(isatty(slave) && write(slave, "x", 1) == 1, "… is a terminal");
    cleanup_fd int empty = open("/proc/self/ns", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int other, none;
    ok(terminal_setup(&plan, empty, 0, false, &other, &none, &error) == -ENOENT,
       "a root without devpts is refused");
}

/* Run the relay in a child with the given input. Return its output and whether it succeeded. */
static bool run_relay(const char *input, void (*container)(int slave), char *output, size_t size)
{
    int in[2], out[2], stop[2];
    cleanup_fd int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (pipe(in) < 0 || pipe(out) < 0 || pipe(stop) < 0 || master < 0 || unlockpt(master) < 0)
        bail_out("pipes: %s", strerror(errno));
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    pid_t relay = fork();
    if (relay == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        close(in[1]);
        close(slave);
        close(stop[1]);
        _exit(terminal_relay(master, stop[0], NULL) == 0 ? 0 : 1);
    }
    pid_t process = fork();
    if (process == 0) {
        close(in[1]);
        container(slave);
        _exit(0);
    }
    close(slave);
    close(out[1]);
    (void)!write(in[1], input, strlen(input));
    close(in[1]);
    waitpid(process, NULL, 0);
    close(stop[1]);
    ssize_t n = io_read_full(out[0], output, size - 1);
    output[n > 0 ? n : 0] = '\0';
    int status;
    waitpid(relay, &status, 0);
    close(in[0]);
    close(out[0]);
    close(stop[0]);
    return status == 0;
}

/* Read lines up to the end of file, and answer with their length. */
static void answer_lines(int slave)
{
    struct termios modes;
    tcgetattr(slave, &modes);
    modes.c_lflag &= (tcflag_t)~ECHO;
    tcsetattr(slave, TCSANOW, &modes);
    char buf[256];
    ssize_t n;
    while ((n = read(slave, buf, sizeof(buf))) > 0)
        dprintf(slave, "line of %zd\n", n);
    dprintf(slave, "end\n");
}

static void write_much(int slave)
{
    for (int i = 0; i < 5000; i++)
        dprintf(slave, "0123456789\n");
}

static void test_relay(void)
{
    static char output[100000];
    ok(run_relay("abc\n", answer_lines, output, sizeof(output)), "relay: ends with the container");
    ok(strstr(output, "line of 4") != NULL, "relay: input arrives");
    ok(strstr(output, "end") != NULL, "relay: the end of input is the end of file for the container");
    run_relay("", write_much, output, sizeof(output));
    is_int(strlen(output), 5000 * 12, "relay: all output is copied before it ends");
}

int main(void)
{
    test_plan();
    test_console_socket();
    test_setup();
    test_relay();
    return done_testing();
}
