/* Network devices between namespaces, with a veth pair in network namespaces of this test. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/sys.h"
#include "sandbox/net/netdev.h"
#include "spec/spec.h"
#include "unit.h"

static struct arena arena;

/* A process in its own network namespace: the container. */
static pid_t start_container(void)
{
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) < 0)
        bail_out("pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWNET) == 0)
            (void)!write(ready[1], "x", 1);
        pause();
        _exit(0);
    }
    char c;
    close(ready[1]);
    bool started = read(ready[0], &c, 1) == 1;
    close(ready[0]);
    if (!started)
        bail_out("no network namespace");
    return pid;
}

__attribute__((format(printf, 1, 2))) static bool shell(const char *format, ...)
{
    char command[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(command, sizeof(command), format, ap);
    va_end(ap);
    return system(command) == 0;
}

static int move(const char *name, const char *new_name, int netns, struct error *err)
{
    struct spec_net_device device = {name, new_name};
    const struct spec_linux linux_ = {.net_devices = {&device, 1}};
    struct netdev_plan plan;
    int ret = netdev_plan(&arena, &linux_, &plan, err);
    return ret < 0 ? ret : netdev_apply(&plan, netns, err);
}

static void test_names(void)
{
    static const char *const bad[] = {"", "a/b", "a b", ".", "..", "sixteen-letters-", "eth%d", "a:b"};
    struct error err = {0};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        is_int(move(bad[i], NULL, -1, &err), -EINVAL, "'%s' is no device of the host", bad[i]);
}

static void test_move(int container)
{
    struct error err = {0};
    int pidfd = sys_pidfd_open(container, 0);
    if (!shell("ip link add wan0 mtu 1400 type veth peer name wan1 &&"
               " ip addr add 192.0.2.5/24 brd + dev wan0 &&"
               " ip addr add 198.51.100.1 peer 198.51.100.2 dev wan0 &&"
               " ip addr add 2001:db8::5/64 dev wan0 && ip link set wan0 up && ip link set wan1 up")) {
        skip("no veth devices or no ip command here");
        return;
    }
    is_int(move("wan0", "eth0", pidfd, &err), 0, "a device is moved by a pidfd");
    if (err.code != 0)
        diag("%s", err.text);
    ok(!shell("ip link show wan0 >/dev/null 2>&1"), "… and no longer exists here");
    ok(shell("nsenter -t %d -n ip -o link show eth0 | grep -q 'UP.*mtu 1400'", container), "… is up there");
    ok(shell("nsenter -t %d -n ip -o -4 addr show dev eth0 | grep -q '192.0.2.5/24 brd 192.0.2.255'",
             container),
       "with its IPv4 address and broadcast address");
    ok(shell("nsenter -t %d -n ip -o -4 addr show dev eth0 | grep -q '198.51.100.1 peer 198.51.100.2/32'",
             container),
       "with its point-to-point address");
    ok(shell("nsenter -t %d -n ip -o -6 addr show dev eth0 | grep 2001:db8::5/64 | grep -qv tentative",
             container),
       "and with its IPv6 address, ready for use");
    int netns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    is_int(move("wan2", NULL, netns, &err), -ENODEV, "a missing device is an error");
    ok(strstr(err.text, "linux.netDevices['wan2']") == err.text, "… that names it");
    close(netns);
    if (shell("ip link add wan3 type veth peer name wan4 && ip addr add 192.0.2.9/24 dev wan3"))
        is_int(move("wan3", "eth%d", pidfd, &err), 0, "a name may be a pattern");
    ok(shell("nsenter -t %d -n ip -o -4 addr show dev eth1 | grep -q 192.0.2.9/24", container),
       "… of which the kernel makes the next free one");
    if (shell("ip link add wan5 type veth peer name wan6"))
        ok(move("wan5", "eth0", pidfd, &err) < 0, "a name that the container already uses is an error");
    close(pidfd);
}

int main(void)
{
    test_names();
    if (geteuid() != 0 || unshare(CLONE_NEWNET) < 0) {
        skip("a network namespace needs root");
        return done_testing();
    }
    pid_t container = start_container();
    test_move(container);
    kill(container, SIGKILL);
    waitpid(container, NULL, 0);
    arena_free(&arena);
    return done_testing();
}
