/* Capabilities and identity of a process: /proc/self/status shows what the plan requests. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/io.h"
#include "sandbox/caps.h"
#include "sandbox/credentials.h"
#include "spec/spec.h"
#include "unit.h"

#define BIT(n) (UINT64_C(1) << (n))
#define LIST(...)                                                                                            \
    {                                                                                                        \
        (const char *[]){__VA_ARGS__}, sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *)          \
    }

static void test_names(void)
{
    struct arena arena = {0};
    size_t count;
    const char *const *names = caps_names(&arena, &count);
    ok(count >= 41, "every capability up to CAP_CHECKPOINT_RESTORE has a name");
    is_str(names[CAP_SYS_ADMIN], "CAP_SYS_ADMIN", "… in the kernel's order");
    is_int(caps_from_name("CAP_CHOWN"), CAP_CHOWN, "CAP_CHOWN");
    is_int(caps_from_name("cap_net_raw"), CAP_NET_RAW, "small letters are fine");
    is_int(caps_from_name("BPF"), CAP_BPF, "and so is a name without its prefix");
    is_int(caps_from_name("CAP_"), -1, "CAP_ alone is not a capability");
    is_int(caps_from_name("CAP_FLY"), -1, "CAP_FLY is not a capability");
    is_int(caps_from_name("CAP_CHOWN,"), -1, "a name with a suffix is not a capability");
    is_int(caps_from_name("12"), -1, "a number is not a capability");
    arena_free(&arena);
}

static void test_plan(void)
{
    struct error err = {0};
    struct caps_plan plan;
    struct spec_process process = {0};
    is_int(caps_plan(&process, true, &plan, &err), 0, "a process may have no capabilities object");
    is_int(plan.bounding | plan.permitted | plan.effective, 0, "… and then has no capability");
    struct spec_capabilities caps = {
        .bounding = LIST("CAP_CHOWN", "CAP_KILL"),
        .permitted = LIST("CAP_CHOWN"),
        .effective = LIST("CAP_CHOWN", "CAP_KILL"),
        .inheritable = LIST("CAP_CHOWN", "CAP_SYSLOG"),
        .ambient = LIST("CAP_CHOWN", "CAP_KILL"),
    };
    process.capabilities = &caps;
    is_int(caps_plan(&process, true, &plan, &err), 0, "sets are decoded");
    ok(plan.bounding == (BIT(CAP_CHOWN) | BIT(CAP_KILL)) && plan.permitted == BIT(CAP_CHOWN),
       "… bounding and permitted as they are");
    ok(plan.effective == BIT(CAP_CHOWN), "effective is kept within permitted");
    ok(plan.inheritable == BIT(CAP_CHOWN), "inheritable within bounding");
    ok(plan.ambient == BIT(CAP_CHOWN), "ambient within permitted and inheritable");
    caps.ambient = (struct str_list)LIST("CAP_CHOWN", "CAP_FLY");
    is_int(caps_plan(&process, true, &plan, &err), 0, "an unknown capability is no error");
    ok(plan.ambient == BIT(CAP_CHOWN), "it is left out");
}

/* Return a hexadecimal field of /proc/self/status. */
static uint64_t status_field(const char *name)
{
    char text[4096], *p;
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = io_read_full(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    p = strstr(text, name);
    return p != NULL ? strtoull(p + strlen(name), NULL, 16) : UINT64_MAX;
}

/* Only CAP_SETPCAP is missing: dropping a missing capability is no error. */
static int drop_twice(void)
{
    struct error err = {0};
    const struct caps_plan plan = {.bounding = BIT(CAP_CHOWN)};
    if (caps_apply_before_uid(&plan, &err) < 0)
        return 1;
    const struct caps_plan nothing = {.bounding = BIT(CAP_CHOWN)};
    if (caps_apply_after_uid(&(struct caps_plan){0}, &err) < 0)
        return 2;
    return caps_apply_before_uid(&nothing, &err) == 0 ? 0 : 3;
}

static int unmapped_groups(void)
{
    struct arena a = {0};
    struct error err = {0};
    if (setgroups(0, NULL) < 0 || setresuid(4242, 4242, 4242) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0 ||
        unshare(CLONE_NEWUSER) < 0)
        return 1;
    if (io_write_value_at(AT_FDCWD, "/proc/self/setgroups", "deny") < 0 ||
        io_write_value_at(AT_FDCWD, "/proc/self/uid_map", "0 4242 1") < 0 ||
        io_write_value_at(AT_FDCWD, "/proc/self/gid_map", "0 0 1") < 0)
        return 2;
    uint32_t groups[] = {5};
    struct spec_process process = {0};
    struct credentials_plan credentials;
    credentials_plan(&a, &process, &(struct credentials_options){0}, &credentials, &err);
    if (credentials_apply(&credentials, &err) < 0)
        return 3;
    process.user.additional_gids.items = groups;
    process.user.additional_gids.count = 1;
    credentials_plan(&a, &process, &(struct credentials_options){0}, &credentials, &err);
    if (credentials_apply(&credentials, &err) == 0 || strstr(err.text, "denies supplementary groups") == NULL)
        return 4;
    credentials_plan(&a, &process, &(struct credentials_options){.keep_groups = true}, &credentials, &err);
    return credentials_apply(&credentials, &err) == 0 ? 0 : 5;
}

static int give_stdio(void)
{
    struct error err = {0};
    struct stat st, null_before;
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC) < 0 || dup2(pipes[1], STDERR_FILENO) < 0)
        return 1;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fstat(null, &null_before) < 0 || dup2(null, STDIN_FILENO) < 0 || close(STDOUT_FILENO) < 0)
        return 2;
    if (credentials_give_stdio(4242, NULL, &err) < 0)
        return 3;
    if (fstat(STDERR_FILENO, &st) < 0 || st.st_uid != 4242)
        return 4;
    return fstat(STDIN_FILENO, &st) == 0 && st.st_uid == null_before.st_uid ? 0 : 5;
}

/* Let uid 4242 write, by an access control list: the format of linux/posix_acl_xattr.h. */
static void allow_by_list(int fd)
{
    const uint32_t list[] = {2, 0x60001, ~0U, 0x60002, 4242, 0x40004, ~0U, 0x60010, ~0U, 0x40020, ~0U};
    (void)fsetxattr(fd, "system.posix_acl_access", list, sizeof(list), 0); /* if the file system has them */
}

/* Return the owner of a file while it is a standard stream of a process of uid 4242. Owner and mode must be
 * the same again when that has ended. */
static uid_t owner_meanwhile(const char *path, int flags, uid_t owner, mode_t mode)
{
    struct error err = {0};
    struct stdio_loan loan = {0};
    struct stat st, after;
    int made = open(path, O_WRONLY | O_CLOEXEC);
    if (fchmod(made, mode) < 0 || fchown(made, owner, 0) < 0)
        return 1;
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0 || dup2(fd, STDIN_FILENO) < 0 || credentials_give_stdio(4242, &loan, &err) < 0)
        return 2;
    if (fstat(fd, &st) < 0 || (st.st_uid == 4242 && fchmod(fd, 04777) < 0))
        return 3;
    if (st.st_uid == 4242)
        allow_by_list(fd);
    credentials_end_loan(&loan);
    if (fgetxattr(fd, "system.posix_acl_access", NULL, 0) >= 0)
        return 5;
    return fstat(fd, &after) == 0 && after.st_uid == owner && after.st_mode == (S_IFREG | mode) ? st.st_uid
                                                                                                : 4;
}

static int lend_files(void)
{
    const struct {
        int flags;
        uid_t owner, meanwhile;
        mode_t mode;
    } files[] = {
        {O_WRONLY, 0, 4242, 0644}, {O_RDWR, 0, 4242, 0600}, {O_RDONLY, 0, 0, 0600},
        {O_WRONLY, 0, 0, 0666},    {O_WRONLY, 7, 7, 0644},  {O_WRONLY | O_APPEND, 0, 0, 0644},
    };
    char path[] = "/tmp/stream-XXXXXX";
    close(mkstemp(path));
    int wrong = 0;
    for (size_t i = 0; wrong == 0 && i < sizeof(files) / sizeof(files[0]); i++)
        if (owner_meanwhile(path, files[i].flags, files[i].owner, files[i].mode) != files[i].meanwhile)
            wrong = (int)i + 1;
    unlink(path);
    return wrong;
}

/* caps_after_exec predicts the kernel's result. The test program executes itself and compares. */
static struct caps_plan exec_plan;
static uid_t exec_uid;
static bool exec_no_new_privs;

static int become_by_exec(void)
{
    struct error err = {0};
    struct __user_cap_data_struct after[2];
    char permitted[20], effective[20], inheritable[20];
    if (caps_after_exec(&exec_plan, exec_uid == 0, exec_no_new_privs, after) < 0)
        return 1;
    snprintf(permitted, sizeof(permitted), "%x%08x", after[1].permitted, after[0].permitted);
    snprintf(effective, sizeof(effective), "%x%08x", after[1].effective, after[0].effective);
    snprintf(inheritable, sizeof(inheritable), "%x%08x", after[1].inheritable, after[0].inheritable);
    if (caps_apply_before_uid(&exec_plan, &err) < 0 || prctl(PR_SET_KEEPCAPS, 1) < 0 ||
        (exec_no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) ||
        setresuid(exec_uid, exec_uid, exec_uid) < 0 || caps_apply_after_uid(&exec_plan, &err) < 0)
        return 2;
    execl("/proc/self/exe", "test_caps", "--after-exec", permitted, effective, inheritable, NULL);
    return 3;
}

static int after_exec(char **argv)
{
    return status_field("CapPrm:") == strtoull(argv[2], NULL, 16) &&
                   status_field("CapEff:") == strtoull(argv[3], NULL, 16) &&
                   status_field("CapInh:") == strtoull(argv[4], NULL, 16)
               ? 0
               : 4;
}

static void test_after_exec(void)
{
    const uint64_t one = BIT(CAP_CHOWN), two = BIT(CAP_CHOWN) | BIT(CAP_NET_BIND_SERVICE);
    const struct {
        const char *name;
        uid_t uid;
        bool no_new_privs;
        struct caps_plan plan;
    } cases[] = {
        {"root has its bounding set", 0, false, {two, two, 0, two, 0}},
        {"root has all that is permitted effective", 0, false, {two, one, 0, two, 0}},
        {"root with no_new_privs gains nothing", 0, true, {two, one, 0, one, 0}},
        {"root keeps inheritable capabilities", 0, false, {two, two, one, two, 0}},
        {"a user loses everything", 1000, false, {two, two, 0, two, 0}},
        {"a user keeps the ambient set", 1000, false, {two, two, two, two, one}},
        {"a user keeps the ambient set, with no_new_privs too", 1000, true, {two, one, one, one, one}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        exec_plan = cases[i].plan;
        exec_uid = cases[i].uid;
        exec_no_new_privs = cases[i].no_new_privs;
        in_child(become_by_exec, cases[i].name);
    }
    struct __user_cap_data_struct after[2];
    is_int(caps_after_exec(&(struct caps_plan){.bounding = two, .permitted = one}, true, false, after),
           -EPERM, "a capability that only execve could give is refused");
}

static void test_invalid_ids(void)
{
    struct arena a = {0};
    struct error err = {0};
    struct credentials_plan plan;
    struct spec_process process = {.user = {.uid = UINT32_MAX}};
    is_int(credentials_plan(&a, &process, &(struct credentials_options){0}, &plan, &err), -EINVAL,
           "uid 4294967295 is refused");
    process.user.uid = 1;
    is_int(credentials_plan(&a, &process, &(struct credentials_options){0}, &plan, &err), 0, "uid 1 is not");
    is_int(plan.umask, 022, "the umask is 022 unless given");
    arena_free(&a);
}

int main(int argc, char **argv)
{
    if (argc == 5)
        return after_exec(argv);
    test_names();
    test_plan();
    test_invalid_ids();
    if (geteuid() != 0) {
        skip("changing ids and capabilities needs root");
        return done_testing();
    }
    in_child(drop_twice, "the bounding set is not touched where nothing is to be dropped");
    in_child(unmapped_groups, "a user namespace that denies setgroups");
    test_after_exec();
    in_child(give_stdio, "pipes are given to the user, /dev/null is not");
    in_child(lend_files, "the caller's file for output is lent to the user, unless it is appended to");
    return done_testing();
}
