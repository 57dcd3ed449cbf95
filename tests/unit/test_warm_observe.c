/* The observer of a probe notes each kind of system call with its arguments, and lets it continue. A child
 * loads the filter and makes the calls. This process serves them. */
#include "warm/observe/observe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"
#include "unit.h"
#include "warm/params.h"

static char directory[] = "/tmp/pysbx-unit.XXXXXX";

/* Send the listener over a socket in a call that the filter does not check: without an address. */
static void send_listener(int channel, int listener)
{
    char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = {0};
    struct iovec iov = {"l", 1};
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    *c = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(c), &listener, sizeof(listener));
    if (sendmsg(channel, &message, 0) != 1)
        _exit(2);
}

static int receive_listener(int channel)
{
    char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))), byte;
    struct iovec iov = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    int fd = -1;
    if (recvmsg(channel, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message) != NULL)
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    return fd;
}

/* The first process loads the filter. The listener is passed in the way of pidfd_getfd, because its number
 * is known. */
struct run {
    const char *records;
    size_t size;
    int status; /* pid of the child */
    int served; /* the last result of observer_serve */
};

static bool has_record(const struct run *run, const char *record)
{
    for (const char *p = run->records; p < run->records + run->size; p += strlen(p) + 1)
        if (strcmp(p, record) == 0)
            return true;
    return false;
}

static void child_main(void (*calls)(void), int channel)
{
    struct arena a = {0};
    const struct sock_filter *filter;
    size_t count;
    observe_filter(&a, OBSERVE_PROBE, &filter, &count);
    const struct sock_fprog program = {(unsigned short)count, (struct sock_filter *)(uintptr_t)filter};
    /* The helper that sends the listener was cloned before the filter, and shares the descriptors. */
    int pipes[2], number = -1;
    if (pipe(pipes) < 0)
        _exit(2);
    pid_t helper = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, 0L);
    if (helper == 0) {
        if (read(pipes[0], &number, sizeof(number)) == sizeof(number))
            send_listener(channel, number);
        _exit(0);
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    number = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    if (number < 0 || write(pipes[1], &number, sizeof(number)) != sizeof(number))
        _exit(2);
    waitpid(helper, NULL, 0);
    syscall(SYS_close_range, 3, ~0U, 0);
    calls();
    _exit(0);
}

static struct run observe(struct arena *a, void (*calls)(void))
{
    struct run run = {.status = -1};
    struct error err = {0};
    struct observer *o;
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        bail_out("socketpair");
    pid_t pid = fork();
    if (pid == 0)
        child_main(calls, sockets[1]);
    close(sockets[1]);
    cleanup_fd int listener = receive_listener(sockets[0]);
    close(sockets[0]);
    if (listener < 0)
        bail_out("no listener");
    if (observer_new(a, listener, OBSERVE_PROBE, &o, &err) < 0)
        bail_out("%s", err.text);
    for (struct pollfd p = {.fd = listener, .events = POLLIN}; poll(&p, 1, 10000) > 0;) {
        if ((p.revents & POLLIN) == 0)
            break;
        if ((run.served = observer_serve(o, &err)) < 0) {
            kill(pid, SIGKILL);
            break;
        }
    }
    waitpid(pid, &run.status, 0);
    observer_stop(o, &run.records, &run.size);
    return run;
}

static void look_at_files(void)
{
    struct stat st;
    char target[64];
    struct open_how how = {.flags = O_RDONLY};
    (void)!chdir(directory);
    int dir = open(".", O_PATH | O_DIRECTORY);
    close(open("absolute", O_RDONLY));
    close(openat(dir, "relative", O_RDONLY));
    close(sys_openat2(dir, "how", &how, sizeof(how)));
    close(open("path", O_PATH));
    close(open("written", O_WRONLY));
    close(open("/proc/self/cwd/magic", O_RDONLY));
    close(open("/proc/self/root/etc//./none", O_RDONLY));
    (void)stat("status", &st);
    (void)fstatat(dir, "", &st, AT_EMPTY_PATH);
    (void)access("present", R_OK);
    (void)!readlink("link", target, sizeof(target));
    (void)mkdir("/proc/made", 0700);
    (void)access(WARM_VARIABLES "VARIABLE", 0);
    (void)stat((const char *)8, &st);
    close(open("absolute", O_RDONLY));
}

static void test_files(struct arena *a)
{
    struct run run = observe(a, look_at_files);
    ok(WIFEXITED(run.status) && WEXITSTATUS(run.status) == 0, "the calls continue");
    static const struct {
        char kind;
        const char *name;
    } expected[] = {{'o', "absolute"}, {'o', "relative"}, {'o', "how"},     {'s', "path"}, {'p', "written"},
                    {'o', "magic"},    {'s', "status"},   {'p', "present"}, {'p', "link"}};
    char record[128];
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        snprintf(record, sizeof(record), "%c%s/%s", expected[i].kind, directory, expected[i].name);
        ok(has_record(&run, record), "noted: %s", record);
    }
    ok(has_record(&run, "o/etc/none"), "a path through /proc/self/root, normalized");
    ok(has_record(&run, "p/proc/made") && has_record(&run, "m/proc/made"),
       "a directory that the child tries to create");
    ok(has_record(&run, "eVARIABLE"), "a variable");
    size_t times = 0;
    snprintf(record, sizeof(record), "o%s/absolute", directory);
    for (const char *p = run.records; p < run.records + run.size; p += strlen(p) + 1)
        times += strcmp(p, record) == 0;
    is_int(times, 1, "once");
}

static void look_at_host(void)
{
    struct utsname name;
    uname(&name);
    uname(&name);
    syscall(SYS_io_uring_setup, 0, NULL);
    pid_t child = fork();
    if (child == 0) {
        close(open("/in-child", O_RDONLY));
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void start_program(void)
{
    char *const argv[] = {(char[]){"true"}, NULL};
    pid_t child;
    if (posix_spawn(&child, "/bin/true", NULL, NULL, argv, NULL) == 0)
        waitpid(child, NULL, 0);
}

static void test_host(struct arena *a)
{
    struct run run = observe(a, look_at_host);
    int names = 0;
    for (const char *p = run.records; p < run.records + run.size; p += strlen(p) + 1)
        names += p[0] == 'u';
    is_int(names, 2, "each query of the host name");
    ok(has_record(&run, "Huse io_uring, which hides what they read"), "io_uring");
    ok(has_record(&run, "F"), "a fork");
    ok(has_record(&run, "o/in-child"), "files that the child opens");
    run = observe(a, start_program);
    ok(has_record(&run, "x/bin/true") && has_record(&run, "o/bin/true"), "a program that is executed");
    ok(!has_record(&run, "F"), "… by a process that does nothing else");
}

static void ask_early(void)
{
    umask(umask(0));
    prctl(PR_SET_PDEATHSIG, 0);
}

static void ask(void)
{
    struct rlimit limit;
    start_program();
    umask(umask(0));
    getrlimit(RLIMIT_CPU, &limit);
    getrlimit(RLIMIT_STACK, &limit);
    (void)getpriority(PRIO_PROCESS, 0);
    prctl(PR_SET_NAME, "name");
    syscall(SYS_sched_getaffinity, 0, 0, NULL);
    kill(0, 0);
    kill(getpid(), 0);
    syscall(SYS_getrandom, NULL, 0, 0);
}

static void ask_unknown(void)
{
    start_program();
    syscall(SYS_open_tree, -1, "", 0);
    kill(getppid(), 0);
}

/* The imports begin, and look at their streams. */
static void ask_streams(void)
{
    char byte;
    struct stat st;
    start_program();
    fstat(STDIN_FILENO, &st);
    (void)access(WARM_QUIET "B", F_OK);
    lseek(STDIN_FILENO, 0, SEEK_CUR);
    syscall(SYS_getrandom, &byte, 1, 0);
    syscall(SYS_getrandom, &byte, 1, WARM_MARK, 0xabcL);
}

static void change_attribute(void)
{
    start_program();
    prctl(PR_SET_PDEATHSIG, 0);
}

static void test_questions(struct arena *a)
{
    struct run run = observe(a, ask_early);
    is_int(run.size, 0, "what the runtime does before the program says nothing");
    run = observe(a, ask);
    ok(has_record(&run, "qumask") && has_record(&run, "qscheduler"), "umask and scheduler");
    ok(has_record(&run, "qlimit 0") && !has_record(&run, "qlimit 3"), "a limit that is not in the key");
    ok(!has_record(
           &run, "H"
                 "ask for or change an attribute of the process by prctl, which a snapshot does not contain"),
       "the name of the process is compared elsewhere");
    ok(has_record(&run, "qaffinity"), "the set of CPUs");
    ok(!has_record(&run, "H"
                         "ask for another process, or send it a signal"),
       "a process may ask for itself");
    run = observe(a, ask_unknown);
    ok(has_record(&run, "Hmake system call 428, whose result may differ between containers"),
       "a call that is not in a table");
    ok(has_record(&run, "H"
                        "ask for another process, or send it a signal"),
       "another process");
    run = observe(a, ask_streams);
    ok(has_record(&run, "H"
                        "ask what kind of file a standard stream is") &&
           !has_record(&run, "d0:0"),
       "a standard stream, after the imports have begun");
    ok(has_record(&run, "r0:1") && has_record(&run, "rabc:1"), "random bytes, of known and unknown callers");
    run = observe(a, change_attribute);
    ok(has_record(
           &run, "H"
                 "ask for or change an attribute of the process by prctl, which a snapshot does not contain"),
       "an attribute of the process");
}

static void reach_out(void)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = "/run/socket"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    (void)connect(fd, (struct sockaddr *)&local, sizeof(local));
}

static void reach_far(void)
{
    struct sockaddr_in far = {.sin_family = AF_INET, .sin_port = htons(9)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    (void)sendto(fd, "x", 1, 0, (struct sockaddr *)&far, sizeof(far));
}

static void look_at_interfaces(void)
{
    close(socket(AF_NETLINK, SOCK_RAW, 0));
}

static void send_plainly(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0)
        (void)send(pair[0], "x", 1, 0);
}

static void test_network(struct arena *a)
{
    struct run run = observe(a, reach_out);
    ok(has_record(&run, "c/run/socket") && !has_record(&run, "N"), "a socket with a path");
    run = observe(a, reach_far);
    ok(has_record(&run, "N"), "another machine");
    run = observe(a, look_at_interfaces);
    ok(has_record(&run, "N"), "network interfaces");
    run = observe(a, send_plainly);
    is_int(run.size, 0, "a socket pair says nothing");
}

static void read_input(void)
{
    char byte;
    (void)!read(STDIN_FILENO, &byte, 1);
}

static void test_input(struct arena *a)
{
    struct run run = observe(a, read_input);
    is_int(run.served, -ENOTSUP, "standard input is not read");
}

int main(void)
{
    struct arena a = {0};
    if (mkdtemp(directory) == NULL)
        bail_out("mkdtemp");
    test_files(&a);
    test_host(&a);
    test_questions(&a);
    test_network(&a);
    test_input(&a);
    rmdir(directory);
    arena_free(&a);
    return done_testing();
}
