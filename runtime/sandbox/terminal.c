/* Create the container's pseudo-terminal and send it to the process that holds the other end. */
#include "sandbox/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/socket.h"
#include "sandbox/mount/attach.h"
#include "spec/spec.h"

/* The bytes that accompany the descriptor. Engines want at least one byte, and fewer than 4096. */
static const char message_name[] = "/dev/ptmx";

struct winsize terminal_callers_size(void)
{
    struct winsize size;
    return ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 ? size : (struct winsize){0};
}

void terminal_give_size(const struct winsize *size)
{
    struct winsize now;
    const bool known = size->ws_row != 0 && size->ws_col != 0;
    if (known && ioctl(STDIN_FILENO, TIOCGWINSZ, &now) == 0 && now.ws_row == 0 && now.ws_col == 0)
        (void)ioctl(STDIN_FILENO, TIOCSWINSZ, size);
}

int terminal_plan(const struct spec_process *process, const char *console_socket, bool foreground,
                  struct terminal_plan *out, struct error *err)
{
    *out = TERMINAL_PLAN_NONE;
    if (process == NULL || !process->terminal) {
        if (console_socket != NULL)
            return error_text(err, -EINVAL, "a console socket is given, but process.terminal is not set");
        return 0;
    }
    if (process->console_size.height > USHRT_MAX || process->console_size.width > USHRT_MAX)
        return error_text(err, -EINVAL, "process.consoleSize: a terminal has at most %d rows and columns",
                          USHRT_MAX);
    out->wanted = true;
    out->rows = (unsigned short)process->console_size.height;
    out->columns = (unsigned short)process->console_size.width;
    /* Set the size now, because the program may ask for it before the relay runs. */
    if (foreground && out->rows == 0) {
        const struct winsize size = terminal_callers_size();
        out->rows = size.ws_row;
        out->columns = size.ws_col;
    }
    if (console_socket != NULL) {
        int fd = socket_connect(console_socket, "console socket", err);
        if (fd < 0)
            return fd;
        out->socket = fd;
        return 0;
    }
    if (!foreground)
        return error_text(err, -EINVAL,
                          "process.terminal is set: a console socket is needed unless in the foreground");
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_set(err, -errno, "socketpair");
    out->socket = pair[0];
    out->relay_socket = pair[1];
    return 0;
}

void terminal_release(struct terminal_plan *plan)
{
    fd_close(&plan->socket);
    fd_close(&plan->relay_socket);
}

/* Open the multiplexer of a devpts, and nothing else. The image or a hostile neighbour may have put anything
 * in this place, and to open another device may have an effect. */
static int open_multiplexer(int rootfd, struct error *err)
{
    cleanup_fd int found = path_open_in_root(rootfd, "/dev/pts/ptmx", O_PATH, 0);
    if (found < 0)
        return error_set(err, found, "a terminal needs a devpts at '/dev/pts': open '/dev/pts/ptmx'");
    struct statfs fs;
    struct stat st;
    if (fstatfs(found, &fs) < 0 || fstat(found, &st) < 0)
        return error_set(err, -errno, "stat '/dev/pts/ptmx'");
    if (fs.f_type != DEVPTS_SUPER_MAGIC || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(5, 2))
        return error_text(err, -EINVAL,
                          "'/dev/pts/ptmx' is not the terminal multiplexer of a devpts: refusing to use it");
    char again[32];
    int root = proc_root(err);
    if (root < 0)
        return root;
    snprintf(again, sizeof(again), "self/fd/%d", found);
    int fd = openat(root, again, O_RDWR | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? error_set(err, -errno, "open '/dev/pts/ptmx'") : fd;
}

static int open_slave(const struct terminal_plan *plan, int master, uid_t uid, struct error *err)
{
    int unlock = 0;
    if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
        return error_set(err, -errno, "unlock the terminal");
    /* Open the slave by ioctl. The name /dev/pts/N could lead to another file. */
    cleanup_fd int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        return error_set(err, -errno, "open the terminal's other end");
    const struct winsize size = {.ws_row = plan->rows, .ws_col = plan->columns};
    if (size.ws_row != 0 && size.ws_col != 0 && ioctl(slave, TIOCSWINSZ, &size) < 0)
        return error_set(err, -errno, "set the terminal's size");
    /* The group is that of the devpts (gid=5). EINVAL: the user namespace does not map the id. */
    if (uid != 0 && fchown(slave, uid, (gid_t)-1) < 0 && errno != EINVAL && errno != EPERM)
        return error_set(err, -errno, "set the owner of the terminal");
    return fd_steal(&slave);
}

static int open_console(int dev, struct error *err)
{
    cleanup_fd int fd =
        openat(dev, "console", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd_steal(&fd);
    if (errno != EEXIST)
        return error_set(err, -errno, "make '/dev/console'");
    struct stat st;
    fd = openat(dev, "console", O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set(err, -errno, "open '/dev/console'");
    if (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode))
        return error_text(
            err, -EINVAL,
            "'/dev/console' in the root file system is neither a file nor a device: refusing to "
            "mount on it");
    return fd_steal(&fd);
}

static int bind_console(int rootfd, int slave, struct error *err)
{
    cleanup_fd int dev = path_open_in_root(rootfd, "/dev", O_PATH | O_DIRECTORY, 0);
    if (dev < 0)
        return error_set(err, dev, "open '/dev' in the root file system");
    cleanup_fd int target = open_console(dev, err);
    if (target < 0)
        return target;
    cleanup_fd int fd = mount_clone(slave, "", false, false, MOUNT_PEERS_PRIVATE);
    int ret = fd < 0 ? fd : mount_set_attrs(fd, MOUNT_ATTRS_DEVICE, false);
    if (ret < 0)
        return error_set(err, ret, "bind the terminal on '/dev/console'");
    ret = mount_attach(fd, target);
    return ret < 0 ? error_set(err, ret, "bind the terminal on '/dev/console'") : 0;
}

int terminal_setup(const struct terminal_plan *plan, int rootfd, uid_t uid, bool console, int *master,
                   int *slave, struct error *err)
{
    cleanup_fd int ours = open_multiplexer(rootfd, err);
    if (ours < 0)
        return ours;
    cleanup_fd int theirs = open_slave(plan, ours, uid, err);
    if (theirs < 0)
        return theirs;
    int ret = console ? bind_console(rootfd, theirs, err) : 0;
    if (ret < 0)
        return ret;
    *master = fd_steal(&ours);
    *slave = fd_steal(&theirs);
    return 0;
}

int terminal_send_master(int socket, int master, struct error *err)
{
    int ret = socket_send_descriptor(socket, message_name, sizeof(message_name) - 1, master);
    return ret < 0 ? error_set(err, ret, "send the terminal to the console socket") : 0;
}

int terminal_receive_master(int socket, struct error *err)
{
    union socket_message control = {0};
    char text[64];
    struct iovec name = {.iov_base = text, .iov_len = sizeof(text)};
    /* Not CMSG_SPACE: it has room for a second descriptor, which the kernel would open too. */
    struct msghdr message = {
        .msg_iov = &name,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = CMSG_LEN(sizeof(int)),
    };
    ssize_t n = RETRY(recvmsg(socket, &message, MSG_CMSG_CLOEXEC));
    if (n < 0)
        return error_set(err, -errno, "receive the container's terminal");
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (n == 0 || header == NULL)
        return error_text(err, -ECONNRESET, "the container ended before it had a terminal");
    cleanup_fd int master = -1;
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        memcpy(&master, CMSG_DATA(header), sizeof(int));
    if (master < 0 || (message.msg_flags & MSG_CTRUNC) != 0)
        return error_text(err, -EPROTO, "receive the container's terminal: not one descriptor");
    return fd_steal(&master);
}

int terminal_place(int slave, struct error *err)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (dup2(slave, fd) < 0)
            return error_set(err, -errno, "duplicate the terminal to descriptor %d", fd);
    if (slave > STDERR_FILENO)
        close(slave);
    return 0;
}

int terminal_control(struct error *err)
{
    return ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0
               ? error_set(err, -errno, "make the terminal the controlling one")
               : 0;
}

int terminal_attach(int slave, struct error *err)
{
    int ret = terminal_place(slave, err);
    return ret < 0 ? ret : terminal_control(err);
}
