/* Labels and keys of a process on machines without a policy for them, and on machines with one. */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json_out.h"
#include "sandbox/keyring.h"
#include "sandbox/lsm/apparmor.h"
#include "sandbox/lsm/selinux.h"
#include "sandbox/lsm/selinux_access.h"
#include "unit.h"

static struct arena arena;

static void test_nothing(void)
{
    struct error err = {0};
    struct selinux_plan selinux;
    struct apparmor_plan apparmor;
    is_int(selinux_plan(NULL, &selinux, &err), 0, "no SELinux label");
    is_int(selinux_apply_exec(&selinux, &err), 0, "… is nothing to do");
    is_int(apparmor_plan(&arena, "", &apparmor, &err), 0, "no AppArmor profile");
    is_int(apparmor_apply(&apparmor, &err), 0, "… is nothing to do");
    is_int(selinux_open(&selinux, &err), 0, "… also when the program may be restored");
    is_int(apparmor_open(&apparmor, &err), 0, "… or the other");
    is_int(selinux_apply_opened(&selinux, &err), 0, "… and when it is not in the end");
    is_int(apparmor_apply_opened(&apparmor, &err), 0, "… or the other");
    is_str(apparmor_obstacle(&apparmor), NULL, "… and nothing in the way of a restore");
    cleanup_json_out struct json_out *out = json_out_new(false);
    selinux_describe(&selinux, out);
    is_str(json_out_text(out, NULL), "null", "… and is described as null");
}

static void test_selinux(void)
{
    struct error err = {0};
    struct selinux_plan plan;
    int ret = selinux_plan("system_u:object_r:no_such_type_t:s0", &plan, &err);
    if (selinux_enabled()) {
        is_int(ret, -EINVAL, "a label that the policy does not know is an error");
        ok(strstr(err.text, "`/proc/self/attr/exec`") != NULL, "… in the words that engines look for");
        return;
    }
    is_int(ret, -ENOTSUP, "a label without SELinux is an error");
    ok(strstr(err.text, "no_such_type_t") != NULL, "… that names it");
    /* No module of this kernel accepts it. */
    plan.label = "system_u:object_r:no_such_type_t:s0";
    ok(selinux_apply_exec(&plan, &err) < 0, "a label that cannot be set is an error");
    ok(strstr(err.text, "`/proc/self/attr/exec`") != NULL, "… in the words that engines look for");
}

static void test_apparmor(void)
{
    struct error err = {0};
    struct apparmor_plan plan;
    is_int(apparmor_plan(&arena, "unconfined", &plan, &err), 0, "unconfined is possible everywhere");
    if (apparmor_enabled()) {
        is_int(apparmor_plan(&arena, "no-such-profile", &plan, &err), 0, "whether a profile is loaded");
        ok(apparmor_apply(&plan, &err) < 0, "… turns out when it is set");
        return;
    }
    is_str(plan.profile, NULL, "… and nothing to do without AppArmor");
    is_int(apparmor_plan(&arena, "docker-default", &plan, &err), -ENOTSUP,
           "any other profile is an error then");
    ok(strstr(err.text, "docker-default") != NULL, "… that names it");
}

static void test_label_parts(void)
{
    static const char label[] = "system_u:system_r:container_t:s0:c1,c2";
    is_str(selinux_label_type(&arena, label), "system_u:system_r:container_t", "a label without its level");
    is_str(selinux_label_plain(&arena, label), "system_u:system_r:container_t:s0",
           "… without its categories");
    is_str(selinux_label_plain(&arena, "u:r:t:s0-s0:c0.c1023"), "u:r:t:s0", "… of a range its low end");
    is_str(selinux_label_plain(&arena, "u:r:t"), NULL, "a label without a level");
    ok(selinux_label_has_categories(label), "categories are seen");
    ok(!selinux_label_has_categories("u:r:t:s0") && !selinux_label_has_categories("u:r:t"),
       "… and their absence");
}

static void test_policy(void)
{
    static const char init[] = "system_u:system_r:kernel_t:s0";
    if (!selinux_enabled()) {
        ok(selinux_obstacle(&arena, init) != NULL, "without SELinux no label can be used");
        return;
    }
    ok(!selinux_allows(init, init, "process", "no_such_permission"), "an unknown permission is not given");
    ok(selinux_own_label(&arena) != NULL, "a process knows its label");
}

/* In a process that was cloned after its parent has opened the file. */
static int write_as_clone(void)
{
    struct error err = {0};
    struct attribute attribute;
    if (attribute_open("self/attr/exec", NULL, "", &attribute, &err) < 0)
        return 1;
    pid_t pid = fork();
    if (pid == 0) {
        const int number = attribute.fd;
        if (attribute_write(&attribute, "no label", NULL, &err) != -EPERM)
            _exit(1);
        if (attribute_reopen(&attribute, &err) < 0 || attribute.fd != number ||
            (fcntl(number, F_GETFD) & FD_CLOEXEC) == 0)
            _exit(2);
        /* The text reaches the security module, which does not know it. */
        _exit(attribute_write(&attribute, "no label", NULL, &err) == -EINVAL ? 0 : 3);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return status == 0 ? 0 : 2;
}

static void test_clone(void)
{
    struct error err = {0};
    const struct attribute none = ATTRIBUTE_NONE;
    is_int(attribute_reopen(&none, &err), 0, "a file that is not open is not opened again");
    in_child(write_as_clone,
             "a clone may not write to its parent's file, and opens its own under the number");
}

static long session_keyring(void)
{
    return syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0);
}

static int join_keyring(void)
{
    struct error err = {0};
    char description[256] = "";
    long before = session_keyring();
    if (keyring_join("test-labels", &err) < 0)
        return 1;
    long mine = session_keyring();
    if (mine == before || syscall(SYS_keyctl, KEYCTL_DESCRIBE, mine, description, sizeof(description)) < 0)
        return 2;
    if (strstr(description, ";3f1b0000;test-labels") == NULL)
        return 3;
    /* exec into the container: another process finds the keyring by its name. */
    pid_t pid = fork();
    if (pid == 0) {
        syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
        _exit(keyring_join("test-labels", &err) == 0 && session_keyring() == mine ? 0 : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return status == 0 ? 0 : 4;
}

static void test_keyring(void)
{
    if (session_keyring() < 0 && errno == ENOSYS) {
        skip("this kernel has no keys");
        return;
    }
    in_child(join_keyring, "a container has a session keyring of its own, which exec joins by name");
}

int main(void)
{
    test_nothing();
    test_selinux();
    test_apparmor();
    test_label_parts();
    test_policy();
    test_clone();
    test_keyring();
    arena_free(&arena);
    return done_testing();
}
