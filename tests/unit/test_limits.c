/* Lists of CPUs and memory nodes; names and values of sysctls. */
#include <errno.h>

#include "base/arena.h"
#include "base/error.h"
#include "sandbox/bitlist.h"
#include "sandbox/sysctl.h"
#include "spec/spec.h"
#include "unit.h"

static struct arena arena;

static void test_bitlist(void)
{
    struct bitlist list;
    is_int(bitlist_parse(&arena, "0-3,7", &list), 0, "a list of ranges");
    is_int(list.words[0], 0x8f, "… sets their bits");
    is_int(bitlist_parse(&arena, "64-65", &list), 0, "bits beyond the first word");
    ok(list.words[0] == 0 && list.words[1] == 3 && list.bits == 128, "… are in the second");
    is_int(bitlist_parse(&arena, "", &list), 0, "the empty list");
    is_int(list.bits, 0, "… has no bits");
    static const char *const bad[] = {"a",  "1-",  "-1",  "3-1",   "1,,2", "1,",
                                      ",1", "1 2", "0x1", "1-2-3", "+1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        is_int(bitlist_parse(&arena, bad[i], &list), -EINVAL, "'%s' is no list", bad[i]);
    is_int(bitlist_parse(&arena, "65536", &list), -ERANGE, "65536 is too large");
    is_int(bitlist_parse(&arena, "99999999999999999999", &list), -ERANGE,
           "and so is a number that overflows");
}

static const char *sysctl_path(const char *key)
{
    struct error err = {0};
    struct sysctl_plan plan;
    struct str_pair pair = {key, "1"};
    return sysctl_plan(&arena, &(struct str_map){&pair, 1}, &plan, &err) < 0 ? NULL : plan.items[0].path;
}

static void test_sysctl(void)
{
    is_str(sysctl_path("net.ipv4.ip_forward"), "sys/net/ipv4/ip_forward", "dots separate");
    is_str(sysctl_path("net/ipv4/ip_forward"), "sys/net/ipv4/ip_forward", "and so do slashes");
    is_str(sysctl_path("net/ipv4/conf/eth0.1/forwarding"), "sys/net/ipv4/conf/eth0.1/forwarding",
           "after a slash a dot is a dot");
    is_str(sysctl_path("net.ipv4.conf.eth0/1.forwarding"), "sys/net/ipv4/conf/eth0.1/forwarding",
           "after a dot a slash stands for one");
    static const char *const bad[] = {"",          "..",        "net/../kernel", "/net/ipv4",
                                      "net..ipv4", "net/ipv4/", "net.ipv4./"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        is_str(sysctl_path(bad[i]), NULL, "'%s' is no parameter", bad[i]);
    struct error err = {0};
    struct sysctl_plan plan;
    struct str_pair pair = {"net.ipv4.ip_forward", "1\nkernel.core_pattern=|/x"};
    is_int(sysctl_plan(&arena, &(struct str_map){&pair, 1}, &plan, &err), -EINVAL, "a value has one line");
}

int main(void)
{
    test_bitlist();
    test_sysctl();
    arena_free(&arena);
    return done_testing();
}
