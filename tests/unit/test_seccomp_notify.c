/* A filter's listener reaches the agent although the filter catches every call that could send it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json_out.h"
#include "base/sys.h"
#include "sandbox/seccomp/notify.h"
#include "sandbox/seccomp/seccomp.h"
#include "spec/spec.h"
#include "unit.h"

static char socket_path[256], directory[] = "/tmp/test_notify.XXXXXX";

static int listen_agent(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/agent", directory);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 1) < 0)
        bail_out("agent socket: %s", strerror(errno));
    return fd;
}

/* The agent receives the listener, and the state as text. */
static int receive(int agent, char *text, size_t size)
{
    int fd = -1, connection = accept(agent, NULL, NULL);
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec data = {text, size - 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
    text[n > 0 ? n : 0] = '\0';
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header != NULL && header->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    close(connection);
    return fd;
}

/* Answer one call, and return its number. */
static int answer(int listener)
{
    struct seccomp_notif call = {0};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0)
        return -errno;
    struct seccomp_notif_resp response = {.id = call.id, .error = -EOWNERDEAD};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response) < 0)
        return -errno;
    return call.data.nr;
}

static void write_state(struct json_out *out, const void *arg)
{
    json_out_map_open(out);
    json_out_pair_string(out, "id", arg);
    json_out_map_close(out);
}

static const char *const profile =
    "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"listenerMetadata\": \"purpose\", \"listenerPath\": \"%s\", "
    "\"syscalls\": [{\"names\": [\"write\", \"sendmsg\", \"mkdir\", \"mkdirat\"], \"action\": "
    "\"SCMP_ACT_NOTIFY\"}]}";

static struct seccomp_plan make_plan(struct arena *a, const char *path)
{
    struct error err = {0};
    struct seccomp_plan plan;
    const char *text = arena_printf(a, profile, path);
    struct spec_linux linux_ = {.seccomp_text = {text, strlen(text)}};
    const struct spec spec = {.linux_ = &linux_};
    if (seccomp_plan(a, &spec, &(struct seccomp_context){-1, "1"}, &plan, &err) < 0)
        bail_out("%s", err.text);
    return plan;
}

/* A process that loads the filter and makes a directory. */
static pid_t start_process(const struct seccomp_plan *plan, struct seccomp_handover *handover)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct error err = {0};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (seccomp_install(plan, handover, &err) < 0)
            _exit(1);
        _exit(mkdir("/tmp/test_notify.never", 0700) < 0 && errno == EOWNERDEAD ? 0 : 2);
    }
    return pid;
}

static void test_send(struct arena *a)
{
    struct error err = {0};
    struct seccomp_handover *handover;
    char text[1024];
    int agent = listen_agent(), status = -1;
    struct seccomp_plan plan = make_plan(a, socket_path);
    ok(plan.notify, "the profile needs a listener");
    is_int(seccomp_handover_new(&plan, &handover, &err), 0, "the hand-over is prepared");
    pid_t pid = start_process(&plan, handover);
    int pidfd = sys_pidfd_open(pid, 0);
    const struct seccomp_receiver receiver = {"1.3.0", pid, write_state, "box"};
    is_int(seccomp_notify_send(&plan, handover, pidfd, &receiver, &err), 0,
           "the listener is sent to the agent");
    if (err.code != 0)
        diag("%s", err.text);
    int listener = receive(agent, text, sizeof(text));
    char expected[256];
    snprintf(expected, sizeof(expected),
             "{\"ociVersion\":\"1.3.0\",\"fds\":[\"seccompFd\"],\"pid\":%d,\"metadata\":\"purpose\","
             "\"state\":{\"id\":\"box\"}}",
             (int)pid);
    is_str(text, expected, "… with the state of the container's process");
    int call = answer(listener);
    bool is_mkdir = call == SYS_mkdirat;
#ifdef SYS_mkdir
    is_mkdir |= call == SYS_mkdir;
#endif
    ok(is_mkdir, "the first call that the agent sees is the program's, not the runtime's");
    waitpid(pid, &status, 0);
    is_int(status, 0, "and the program gets the agent's answer");
    seccomp_handover_free(handover);
    close(listener);
    close(pidfd);
    close(agent);
}

static void test_failures(struct arena *a)
{
    struct error err = {0};
    struct seccomp_handover *handover;
    struct seccomp_plan plan = make_plan(a, "/nonexistent/agent");
    seccomp_handover_new(&plan, &handover, &err);
    pid_t pid = start_process(&plan, handover);
    int pidfd = sys_pidfd_open(pid, 0);
    const struct seccomp_receiver receiver = {"1.3.0", pid, write_state, "box"};
    is_int(seccomp_notify_send(&plan, handover, pidfd, &receiver, &err), -ENOENT,
           "an agent that is not there");
    is_int(waitpid(pid, NULL, WNOHANG), 0, "… leaves the process waiting");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(pidfd);
    seccomp_handover_free(handover);

    seccomp_handover_new(&plan, &handover, &err);
    pid = fork();
    if (pid == 0)
        _exit(0);
    pidfd = sys_pidfd_open(pid, 0);
    is_int(seccomp_notify_send(&plan, handover, pidfd, &receiver, &err), -ESRCH,
           "a process that ends early is noticed");
    waitpid(pid, NULL, 0);
    close(pidfd);
    seccomp_handover_free(handover);

    is_int(seccomp_handover_new(&(struct seccomp_plan){0}, &handover, &err), 0, "without notify");
    ok(handover == NULL, "… there is nothing to hand over");
}

int main(void)
{
    struct arena a = {0};
    if (mkdtemp(directory) == NULL)
        bail_out("mkdtemp: %s", strerror(errno));
    /* Longer than sun_path, so it is reached through its directory. */
    char link[160], command[64];
    snprintf(link, sizeof(link), "%s/%0120d", directory, 0);
    if (symlink(".", link) < 0)
        bail_out("symlink: %s", strerror(errno));
    snprintf(socket_path, sizeof(socket_path), "%s/agent", link);
    test_send(&a);
    test_failures(&a);
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    if (system(command) != 0)
        diag("'%s' is left", directory);
    arena_free(&a);
    return done_testing();
}
