/* exec: the syntax of the user, and the effect of the options on the container's process. */
#include <errno.h>

#include "base/arena.h"
#include "base/error.h"
#include "cli/exec_process.h"
#include "unit.h"

static struct arena arena;

/* A string that is not a complete number must never become user 0: CVE-2026-30892. */
static void test_users(void)
{
    static const struct {
        const char *text;
        bool valid;
        uint32_t uid, gid; /* 7 and 8 stand for "as before" */
    } users[] = {
        {"1", true, 1, 8},
        {"0", true, 0, 8},
        {"1:2", true, 1, 2},
        {"1000:0", true, 1000, 0},
        {"4294967294:4294967294", true, 4294967294, 4294967294},
        {"", false, 7, 8},
        {":", false, 7, 8},
        {"1:", false, 7, 8},
        {":2", false, 7, 8},
        {"1:2:3", false, 7, 8},
        {"-1", false, 7, 8},
        {"+1", false, 7, 8},
        {"1:-1", false, 7, 8},
        {" 1", false, 7, 8},
        {"1 ", false, 7, 8},
        {"1x", false, 7, 8},
        {"1:2x", false, 7, 8},
        {"0x1", false, 7, 8},
        {"root", false, 7, 8},
        {"4294967295", false, 7, 8},
        {"4294967296", false, 7, 8},
        {"4294967296:1", false, 7, 8},
        {"1:4294967296", false, 7, 8},
        {"18446744073709551617", false, 7, 8},
    };
    for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
        uint32_t uid = 7, gid = 8;
        struct error err = {0};
        int ret = exec_process_parse_user(users[i].text, &uid, &gid, &err);
        is_int(ret, users[i].valid ? 0 : -EINVAL, "user '%s' is %s", users[i].text,
               users[i].valid ? "understood" : "refused");
        is_int(uid, users[i].uid, "user '%s': uid", users[i].text);
        is_int(gid, users[i].gid, "user '%s': gid", users[i].text);
        ok(users[i].valid || strstr(err.text, "expected UID or UID:GID") != NULL,
           "user '%s': the message names the expected form", users[i].text);
    }
}

static struct str_list list(const char **items, size_t count)
{
    return (struct str_list){items, count};
}

static void test_environment(void)
{
    const char *own[] = {"PATH=/bin", "HOME=/", "PAT=x"};
    const char *given[] = {"HOME=/root", "NEW=", "NEW=1"};
    struct spec_process process = {.env = list(own, 3)};
    struct exec_process_options options = {.env = list(given, 3)};
    is_int(exec_process_apply(&arena, &options, &process, NULL), 0, "variables are set");
    is_int(process.env.count, 4, "an existing variable is replaced, a new one added once");
    is_str(process.env.items[0], "PATH=/bin", "another variable stays");
    is_str(process.env.items[1], "HOME=/root", "a variable that is given is replaced in its place");
    is_str(process.env.items[2], "PAT=x", "a name that is the beginning of another is another");
    is_str(process.env.items[3], "NEW=1", "of two values the last one counts");

    static const char *bad[] = {"NAME", "=VALUE", ""};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct error err = {0};
        options.env = list(&bad[i], 1);
        is_int(exec_process_apply(&arena, &options, &process, &err), -EINVAL, "variable '%s' is refused",
               bad[i]);
    }
}

static void test_capabilities(void)
{
    const char *own[] = {"CAP_CHOWN"}, *given[] = {"CAP_KILL"};
    struct spec_capabilities capabilities = {.bounding = list(own, 1), .inheritable = list(own, 1)};
    struct spec_process process = {.capabilities = &capabilities};
    struct exec_process_options options = {.caps = list(given, 1)};
    is_int(exec_process_apply(&arena, &options, &process, NULL), 0, "a capability is added");
    is_int(capabilities.bounding.count, 2, "to the bounding set");
    is_str(capabilities.effective.items[0], "CAP_KILL", "to the effective set");
    is_str(capabilities.permitted.items[0], "CAP_KILL", "to the permitted set");
    is_int(capabilities.inheritable.count, 1, "never to the inheritable set (CVE-2022-29162)");
    is_int(capabilities.ambient.count, 0, "and so not to the ambient set");
    const char *inherited[] = {"chown"};
    options.caps = list(inherited, 1);
    is_int(exec_process_apply(&arena, &options, &process, NULL), 0, "an inheritable one is added");
    is_int(capabilities.ambient.count, 1, "to the ambient set, too");

    process.capabilities = NULL;
    exec_process_apply(&arena, &options, &process, NULL);
    ok(process.capabilities != NULL && process.capabilities->bounding.count == 1,
       "a process without capabilities gets that one");
}

static void test_identity(void)
{
    uint32_t own[] = {5};
    const char *given[] = {"6,7", "8"};
    struct spec_process process = {.user = {.uid = 1, .gid = 2, .additional_gids = {own, 1}},
                                   .terminal = true,
                                   .no_new_privileges = true,
                                   .cwd = "/",
                                   .selinux_label = "own"};
    struct exec_process_options options = {
        .additional_gids = list(given, 2), .cwd = "/tmp", .apparmor = "profile"};
    is_int(exec_process_apply(&arena, &options, &process, NULL), 0, "groups are added");
    is_int(process.user.additional_gids.count, 4, "all of them, besides the container's");
    is_int(process.user.additional_gids.items[3], 8, "in the order given");
    is_int(process.user.uid, 1, "without --user the user stays");
    ok(!process.terminal, "without --tty there is no terminal, even if the container has one");
    ok(process.no_new_privileges, "privileges that the container gave up do not come back");
    is_str(process.cwd, "/tmp", "--cwd");
    is_str(process.selinux_label, "own", "without --process-label the label stays");
    is_str(process.apparmor_profile, "profile", "--apparmor");

    static const char *bad[] = {"", "6,", "staff", "-1", "4294967295"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct error err = {0};
        options.additional_gids = list(&bad[i], 1);
        is_int(exec_process_apply(&arena, &options, &process, &err), -EINVAL, "group '%s' is refused",
               bad[i]);
    }
}

int main(void)
{
    test_users();
    test_environment();
    test_capabilities();
    test_identity();
    arena_free(&arena);
    return done_testing();
}
