/* The manager cgroupfs with a real cgroup2 file system, mounted in a mount namespace of this test. It
 * creates, limits, freezes, kills, watches and removes cgroups below a cgroup of the test. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/json_out.h"
#include "base/sys.h"
#include "cgroup/cgroup.h"
#include "cgroup/devices.h"
#include "spec/spec.h"
#include "unit.h"

#define MOUNT "/sys/fs/cgroup"

static struct arena arena;
static char top[64]; /* "/pysbx-test-PID" */

static const char *below_top(const char *name)
{
    return arena_printf(&arena, "%s/%s", top, name);
}

static struct cgroup_plan *plan_for(const char *path, const char *resources, struct error *err)
{
    struct spec_linux linux_ = {.cgroups_path = path};
    struct spec spec = {.linux_ = &linux_};
    struct cgroup_options options = {.manager = CGROUP_MANAGER_CGROUPFS, .id = "test"};
    struct cgroup_plan *plan = NULL;
    *err = (struct error){0};
    if (spec_parse_resources(&arena, resources, strlen(resources), &linux_.resources, err) < 0 ||
        cgroup_plan(&arena, &spec, &options, &plan, err) < 0)
        return NULL;
    return plan;
}

static int update(const struct cgroup_plan *plan, const char *json, struct error *err)
{
    struct spec_resources *resources;
    int ret = spec_parse_resources(&arena, json, strlen(json), &resources, err);
    return ret < 0 ? ret : cgroup_update(&arena, &plan->ref, resources, err);
}

static bool exists(const char *path)
{
    return access(arena_printf(&arena, MOUNT "%s", path), F_OK) == 0;
}

static const char *content(const char *path, const char *file)
{
    char *text = arena_alloc(&arena, 256);
    if (io_read_small_at(AT_FDCWD, arena_printf(&arena, MOUNT "%s/%s", path, file), text, 256) < 0)
        return NULL;
    return text;
}

/* Create a child in the cgroup. It sleeps, or runs `body` and exits with its result. */
static pid_t clone_into(int dirfd, int (*body)(void))
{
    struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)dirfd};
    pid_t pid = sys_clone3(&args, sizeof(args));
    if (pid == 0) {
        if (body != NULL)
            _exit(body());
        for (;;)
            pause();
    }
    return pid;
}

static int exit_code(pid_t pid)
{
    int status;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int death_signal(pid_t pid)
{
    int status;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

static void test_life(void)
{
    struct error err;
    cleanup_fd int dirfd = -1;
    struct cgroup_plan *plan = plan_for(below_top("a/b/life"), "{}", &err);
    is_int(cgroup_create(plan, &dirfd, &err), 0, "a cgroup is created with its parents");
    ok(dirfd >= 0 && exists(plan->ref.path), "and opened");
    pid_t pid = clone_into(dirfd, NULL), *pids = NULL;
    ok(pid > 0, "a process is created in it");
    size_t count = 0;
    is_int(mkdirat(dirfd, "deep", 0755), 0, "the container makes one below");
    cleanup_fd int deep = cgroup_open(&plan->ref, "deep", &err);
    pid_t below = clone_into(deep, NULL);
    is_int(cgroup_pids(&arena, &plan->ref, &pids, &count, &err), 0, "processes are listed");
    ok(count == 2 && pids[0] + pids[1] == pid + below, "those below as well");
    is_int(cgroup_open(&plan->ref, "../..", &err), -EXDEV, "a sub-cgroup cannot be outside");

    is_int(cgroup_frozen(&plan->ref), 0, "not frozen");
    is_int(cgroup_freeze(&plan->ref, &err), 0, "frozen");
    is_int(cgroup_frozen(&plan->ref), 1, "and known to be");
    is_int(cgroup_kill(&plan->ref, SIGTERM, &err), 0, "a signal to a frozen cgroup");
    is_int(cgroup_frozen(&plan->ref), 1, "which it leaves frozen");
    is_int(cgroup_thaw(&plan->ref, &err), 0, "thawed");
    is_int(death_signal(pid), SIGTERM, "a signal arrives");
    is_int(death_signal(below), SIGTERM, "below as well");
    is_int(cgroup_kill(&plan->ref, SIGTERM, &err), 0, "no process is left to signal");

    pid = clone_into(dirfd, NULL);
    is_int(cgroup_kill(&plan->ref, SIGKILL, &err), 0, "all killed");
    is_int(death_signal(pid), SIGKILL, "by SIGKILL");
    is_int(cgroup_destroy(&plan->ref, &err), 0, "removed");
    ok(!exists(plan->ref.path), "with its children");
    is_int(cgroup_destroy(&plan->ref, &err), 0, "one that is not there is removed already");
    is_int(cgroup_freeze(&plan->ref, &err), -ENOENT, "and cannot be frozen");
    is_int(cgroup_frozen(&plan->ref), 0, "and is not");
}

static void test_destroy_populated(void)
{
    struct error err;
    cleanup_fd int dirfd = -1;
    struct cgroup_plan *plan = plan_for(below_top("populated"), "{}", &err);
    is_int(cgroup_create(plan, &dirfd, &err), 0, "a cgroup");
    /* A tree of 40 levels with a branch on each level, and a process in the lowest cgroup. */
    cleanup_fd int dir = dup(dirfd);
    for (int i = 0; i < 40; i++) {
        (void)mkdirat(dir, "branch", 0755);
        (void)mkdirat(dir, "deeper", 0755);
        int next = openat(dir, "deeper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        fd_close(&dir);
        dir = next;
    }
    pid_t bottom = clone_into(dir, NULL), frozen = clone_into(dirfd, NULL);
    is_int(cgroup_freeze(&plan->ref, &err), 0, "frozen, with processes forty levels below");

    cleanup_fd int second = -1;
    is_int(cgroup_create(plan, &second, &err), -EINVAL, "a second container does not get it: %s", err.text);
    ok(exists(plan->ref.path), "and its failure removes nothing");

    is_int(cgroup_destroy(&plan->ref, &err), 0, "all of it removed");
    ok(!exists(plan->ref.path), "indeed");
    is_int(death_signal(bottom), SIGKILL, "the process at the bottom was killed");
    is_int(death_signal(frozen), SIGKILL, "the one at the top as well");
}

static void test_exec_fallback(void)
{
    struct error err;
    cleanup_fd int dirfd = -1;
    struct cgroup_plan *plan = plan_for(below_top("exec"), "{}", &err);
    is_int(cgroup_create(plan, &dirfd, &err), 0, "a cgroup");
    pid_t init = clone_into(dirfd, NULL);
    cleanup_fd int first = cgroup_open_fallback(&plan->ref, init, &err);
    ok(first >= 0 && exists(below_top("exec/exec")), "init in the container's cgroup: a sub-cgroup for exec");
    (void)mkdirat(dirfd, "init.scope", 0755);
    cleanup_fd int scope = cgroup_open(&plan->ref, "init.scope", &err);
    is_int(cgroup_move(&plan->ref, "init.scope", scope, init, &err), 0, "init moves down");
    cleanup_fd int second = cgroup_open_fallback(&plan->ref, init, &err);
    pid_t pid = clone_into(second, NULL);
    is_str(content(below_top("exec/init.scope"), "cgroup.procs"), arena_printf(&arena, "%d\n%d", init, pid),
           "exec joins init's cgroup");
    is_int(cgroup_destroy(&plan->ref, &err), 0, "removed");
    (void)death_signal(init);
    (void)death_signal(pid);
}

static int open_null(void)
{
    return open("/dev/null", O_RDWR | O_CLOEXEC) >= 0 ? 0 : errno;
}

static int open_zero(void)
{
    return open("/dev/zero", O_RDONLY | O_CLOEXEC) >= 0 ? 0 : errno;
}

static int open_kmsg(void)
{
    return open("/dev/kmsg", O_RDONLY | O_CLOEXEC | O_NONBLOCK) >= 0 ? 0 : errno;
}

static void test_devices(void)
{
    struct error err;
    cleanup_fd int dirfd = -1;
    struct cgroup_plan *plan = plan_for(
        below_top("devices"),
        "{\"devices\":[{\"allow\":false},{\"allow\":false,\"type\":\"c\",\"major\":1,\"minor\":3}]}", &err);
    cleanup_fd int program = -1;
    is_int(cgroup_create(plan, &dirfd, &err), 0, "a cgroup");
    int ret = cgroup_load_devices(plan, &program, &err);
    if (ret == -EPERM || ret == -ENOSYS) {
        skip("BPF device programs are refused here: %s", err.text);
        (void)cgroup_destroy(&plan->ref, &err);
        return;
    }
    is_int(ret, 0, "device rules are loaded");
    is_int(exit_code(clone_into(dirfd, open_kmsg)), access("/dev/kmsg", F_OK) == 0 ? 0 : ENOENT,
           "… and not in force");
    is_int(cgroup_confine(&plan->ref, program, &err), 0, "device rules are attached");
    is_int(exit_code(clone_into(dirfd, open_null)), EPERM, "a denied device cannot be opened");
    is_int(exit_code(clone_into(dirfd, open_zero)), 0, "a default device can");
    is_int(exit_code(clone_into(dirfd, open_kmsg)), access("/dev/kmsg", F_OK) == 0 ? EPERM : ENOENT,
           "a device without a rule cannot");
    is_int(update(plan,
                  "{\"devices\":[{\"allow\":false},"
                  "{\"allow\":false,\"type\":\"c\",\"major\":1,\"minor\":5}]}",
                  &err),
           0, "the rules are replaced");
    is_int(exit_code(clone_into(dirfd, open_null)), 0, "null is allowed again");
    is_int(exit_code(clone_into(dirfd, open_zero)), EPERM, "zero is denied");
    is_int(update(plan, "{\"devices\":[{\"allow\":true}]}", &err), 0, "all is allowed");
    is_int(exit_code(clone_into(dirfd, open_zero)), 0, "zero is allowed again");
    is_int(cgroup_destroy(&plan->ref, &err), 0, "removed");
}

/* The set of controllers depends on the machine, so each check tests for its own. */
static void test_limits(void)
{
    struct error err;
    const char *available = content("/", "cgroup.controllers");
    cleanup_fd int dirfd = -1;
    if (strstr(available, "hugetlb") != NULL) {
        struct cgroup_plan *plan =
            plan_for(below_top("limits/below"),
                     "{\"hugepageLimits\":[{\"pageSize\":\"2MB\",\"limit\":4194304}]}", &err);
        is_int(cgroup_create(plan, &dirfd, &err), 0, "a limit of a controller that has to be enabled first");
        is_str(content(plan->ref.path, "hugetlb.2MB.max"), "4194304", "is written");
        is_int(update(plan, "{\"unified\":{\"hugetlb.2MB.max\":\"2097152\"}}", &err), 0, "and changed");
        is_str(content(plan->ref.path, "hugetlb.2MB.max"), "2097152", "by its file's name");
        cleanup_json_out struct json_out *out = json_out_new(false);
        is_int(cgroup_stats(&plan->ref, out, &err), 0, "its use is told");
        ok(strstr(json_out_text(out, NULL),
                  "\"2MB\":{\"limit\":2097152,\"usage\":0,\"max\":0,\"failcnt\":0}") != NULL,
           "with the limit");
        is_int(cgroup_destroy(&plan->ref, &err), 0, "removed");
    } else {
        skip("no hugetlb controller");
    }
    fd_close(&dirfd);
    if (strstr(available, "memory") != NULL) {
        skip("every controller is available: none is missing");
        return;
    }
    struct cgroup_plan *plan = plan_for(below_top("y/none"), "{\"memory\":{\"limit\":1048576}}", &err);
    is_int(cgroup_create(plan, &dirfd, &err), -ENOENT, "a limit without its controller is an error");
    is_str(err.text,
           arena_printf(&arena,
                        "linux.resources.memory.limit: controller 'memory' is not available in cgroup "
                        "'" MOUNT "%s': 'memory.max' does not exist",
                        plan->ref.path),
           "that names both");
    ok(!exists(below_top("y")), "and leaves nothing behind");
    plan = plan_for(below_top("none"), "{\"memory\":{\"limit\":-1},\"pids\":{\"limit\":-1}}", &err);
    is_int(cgroup_create(plan, &dirfd, &err), 0, "no limit is no error");
    is_int(cgroup_destroy(&plan->ref, &err), 0, "removed");
}

static void test_without(void)
{
    struct error err = {0};
    struct spec_linux linux_ = {0};
    struct spec spec = {.linux_ = &linux_};
    struct cgroup_options options = {.manager = CGROUP_MANAGER_DISABLED, .id = "test"};
    struct cgroup_plan *plan;
    is_int(cgroup_plan(&arena, &spec, &options, &plan, &err), 0, "cgroups disabled");
    cleanup_fd int dirfd = 0;
    is_int(cgroup_create(plan, &dirfd, &err), 0, "nothing is created");
    is_int(dirfd, -1, "nothing is opened");
    is_int(cgroup_destroy(&plan->ref, &err), 0, "nothing is removed");
    static const char limit[] = "{\"pids\":{\"limit\":10}}";
    (void)spec_parse_resources(&arena, limit, strlen(limit), &linux_.resources, &err);
    is_int(cgroup_plan(&arena, &spec, &options, &plan, &err), -ENOTSUP, "but a limit is an error");
    is_str(err.text, "linux.resources.pids.limit: cannot set controller 'pids': cgroups are disabled",
           "that says so");
    linux_.cgroups_path = "/..";
    options.manager = CGROUP_MANAGER_CGROUPFS;
    is_int(cgroup_plan(&arena, &spec, &options, &plan, &err), -EINVAL,
           "the root is not a container's cgroup");
}

/* As a user without rights to any cgroup. This runs in a child, because there is no way back. */
static int plan_as_nobody(void)
{
    struct error err = {0};
    struct spec_linux linux_ = {.cgroups_path = below_top("nobody")};
    struct spec spec = {.linux_ = &linux_};
    struct cgroup_options options = {.manager = CGROUP_MANAGER_CGROUPFS, .id = "test", .rootless = true};
    struct cgroup_plan *plan;
    if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
        return 1;
    if (cgroup_plan(&arena, &spec, &options, &plan, &err) < 0 ||
        plan->ref.manager != CGROUP_MANAGER_DISABLED || plan->reason == NULL)
        return 2;
    static const char limit[] = "{\"memory\":{\"limit\":1000000}}";
    (void)spec_parse_resources(&arena, limit, strlen(limit), &linux_.resources, &err);
    if (cgroup_plan(&arena, &spec, &options, &plan, &err) != -ENOTSUP)
        return 3;
    bool advice = strstr(err.text, "Delegate=") != NULL;
    if (strstr(err.text, "memory") == NULL || advice != (access("/run/systemd/system", F_OK) == 0))
        return 4;
    return err.kind == ERROR_CGROUP_NOT_DELEGATED ? 0 : 5;
}

static void test_rootless(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(plan_as_nobody());
    is_int(exit_code(pid), 0,
           "without permission: no cgroup, or an error that names controller and, under systemd, the remedy");
}

static void test_delegation(void)
{
    struct error err = {0};
    const char *options_list[] = {"nosuid", "rw"};
    struct spec_mount mount_ = {
        .destination = "/sys/fs/cgroup", .type = "cgroup", .source = "cgroup", .options = {options_list, 2}};
    struct spec_namespace namespaces[] = {{.type = "cgroup"}, {.type = "user"}};
    struct spec_idmap map = {.container_id = 0, .host_id = 100000, .size = 65536};
    struct spec_process process = {.user = {.uid = 7}};
    struct spec_linux linux_ = {
        .cgroups_path = below_top("delegated"), .namespaces = {namespaces, 2}, .uid_mappings = {&map, 1}};
    struct spec spec = {.linux_ = &linux_, .process = &process, .mounts = {&mount_, 1}};
    struct cgroup_options options = {.manager = CGROUP_MANAGER_CGROUPFS, .id = "test"};
    struct cgroup_plan *plan;
    cleanup_fd int dirfd = -1;
    ok(cgroup_plan(&arena, &spec, &options, &plan, &err) == 0 && cgroup_create(plan, &dirfd, &err) == 0,
       "a writable cgroup mount in a cgroup namespace of its own");
    struct stat dir = {0}, procs = {0}, freeze = {0};
    (void)fstat(dirfd, &dir);
    (void)fstatat(dirfd, "cgroup.procs", &procs, 0);
    (void)fstatat(dirfd, "cgroup.freeze", &freeze, 0);
    is_int(dir.st_uid, 100007, "gives the directory to the process's user on the host");
    is_int(procs.st_uid, 100007, "and cgroup.procs");
    is_int(freeze.st_uid, 0, "but not the files that the kernel does not list");
    is_int(cgroup_destroy(&plan->ref, &err), 0, "removed");
    options_list[1] = "ro";
    ok(cgroup_plan(&arena, &spec, &options, &plan, &err) == 0 && !plan->delegate,
       "a read-only mount does not");
}

int main(void)
{
    if (geteuid() != 0) {
        skip("needs root: mounts cgroup2 and makes cgroups");
        return done_testing();
    }
    if (unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, 1 << 19 | 1 << 14, NULL) < 0) { /* MS_SLAVE|MS_REC */
        skip("needs a mount namespace: %s", strerror(errno));
        return done_testing();
    }
    while (umount2(MOUNT, MNT_DETACH) == 0)
        ;
    if (mount("cgroup2", MOUNT, "cgroup2", 0, NULL) < 0) {
        skip("needs cgroup2 at %s: %s", MOUNT, strerror(errno));
        return done_testing();
    }
    snprintf(top, sizeof(top), "/pysbx-test-%d", (int)getpid());
    if (mkdir(arena_printf(&arena, MOUNT "%s", top), 0755) < 0) {
        skip("needs to make cgroups: %s", strerror(errno));
        return done_testing();
    }
    test_life();
    test_destroy_populated();
    test_exec_fallback();
    test_devices();
    test_limits();
    test_without();
    test_rootless();
    test_delegation();
    struct error err;
    struct cgroup_ref ref = {.manager = CGROUP_MANAGER_CGROUPFS, .mount = MOUNT, .path = top};
    is_int(cgroup_destroy(&ref, &err), 0, "nothing is left behind");
    arena_free(&arena);
    return done_testing();
}
