/* Labels of a process: their parts, and the file by which a clone sets one. */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "sandbox/lsm/attribute.h"
#include "sandbox/lsm/selinux_access.h"
#include "unit.h"

static struct arena arena;

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

int main(void)
{
    test_label_parts();
    test_clone();
    arena_free(&arena);
    return done_testing();
}
