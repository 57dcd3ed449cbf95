/* Settings of a process that consist of a word and a number: rlimits, sysctl, scheduler, affinity, I/O
 * priority, memory policy, personality, lists of CPUs. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/io.h"
#include "base/json_out.h"
#include "sandbox/bitlist.h"
#include "sandbox/ioprio.h"
#include "sandbox/mempolicy.h"
#include "sandbox/net/loopback.h"
#include "sandbox/oom.h"
#include "sandbox/personality.h"
#include "sandbox/rlimits.h"
#include "sandbox/sched.h"
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

static int set_nofile(void)
{
    struct error err = {0};
    struct spec_rlimit limit = {"RLIMIT_NOFILE", 200, 100};
    struct rlimits_plan plan;
    struct rlimit now;
    if (rlimits_plan(&arena, &(struct spec_rlimits){&limit, 1}, &plan, &err) < 0 ||
        rlimits_apply(&plan, &err) < 0 || getrlimit(RLIMIT_NOFILE, &now) < 0)
        return 1;
    return now.rlim_cur == 100 && now.rlim_max == 200 ? 0 : 2;
}

static int raise_nofile(void)
{
    struct error err = {0};
    struct spec_rlimit limit = {"RLIMIT_NOFILE", 5000000000, 5000000000};
    struct rlimits_plan plan;
    if (rlimits_plan(&arena, &(struct spec_rlimits){&limit, 1}, &plan, &err) < 0)
        return 1;
    if (rlimits_apply(&plan, &err) != -EPERM)
        return 2;
    return strstr(err.text, "set RLIMIT_NOFILE to 5000000000:5000000000: not permitted") != NULL ? 0 : 3;
}

static void test_rlimits(void)
{
    struct error err = {0};
    struct rlimits_plan plan;
    struct spec_rlimit limits[] = {{"RLIMIT_CORE", 1, 1}, {"RLIMIT_CORE", 2, 2}};
    is_int(rlimits_plan(&arena, &(struct spec_rlimits){NULL, 0}, &plan, &err), 0, "no limits");
    is_int(rlimits_plan(&arena, &(struct spec_rlimits){limits, 2}, &plan, &err), -EINVAL,
           "a limit given twice");
    is_str(err.text, "process.rlimits[1].type: 'RLIMIT_CORE' is given twice", "… is named");
    limits[0] = (struct spec_rlimit){"RLIMIT_FUN", 1, 1};
    is_int(rlimits_plan(&arena, &(struct spec_rlimits){limits, 1}, &plan, &err), -EINVAL, "an unknown limit");
    limits[0] = (struct spec_rlimit){"RLIMIT_AS", 1, 2};
    is_int(rlimits_plan(&arena, &(struct spec_rlimits){limits, 1}, &plan, &err), -EINVAL, "soft above hard");
    limits[0] = (struct spec_rlimit){"RLIMIT_AS", UINT64_MAX, UINT64_MAX};
    is_int(rlimits_plan(&arena, &(struct spec_rlimits){limits, 1}, &plan, &err), 0, "unlimited");
    ok(plan.items[0].limit.rlim_max == RLIM_INFINITY, "… is the greatest number");
    cleanup_json_out struct json_out *out = json_out_new(false);
    rlimits_describe(&plan, out);
    is_str(json_out_text(out, NULL),
           "[{\"type\":\"RLIMIT_AS\",\"soft\":18446744073709551615,\"hard\":18446744073709551615}]",
           "… and described as it is");
    in_child(set_nofile, "soft and hard limits are set");
    in_child(raise_nofile, "a limit that is refused is explained");
}

static const char *sysctl_path(const char *key)
{
    struct error err = {0};
    struct sysctl_plan plan;
    struct str_pair pair = {key, "1"};
    return sysctl_plan(&arena, &(struct str_map){&pair, 1}, &plan, &err) < 0 ? NULL : plan.items[0].path;
}

static int write_sysctl(void)
{
    struct error err = {0};
    struct sysctl_plan plan;
    struct str_pair pairs[] = {{"net.ipv4.ip_forward", "1"}, {"net.ipv4.ping_group_range", "0 0"}};
    char value[16];
    if (unshare(CLONE_NEWNET) < 0 || loopback_up(&err) < 0)
        return 1;
    if (sysctl_plan(&arena, &(struct str_map){pairs, 2}, &plan, &err) < 0 || sysctl_apply(&plan, &err) < 0)
        return 2;
    if (io_read_small_at(AT_FDCWD, "/proc/sys/net/ipv4/ip_forward", value, sizeof(value)) != 1 ||
        *value != '1')
        return 3;
    pairs[0] = (struct str_pair){"net.ipv4.no_such_thing", "1"};
    if (sysctl_plan(&arena, &(struct str_map){pairs, 1}, &plan, &err) < 0 || sysctl_apply(&plan, &err) == 0)
        return 4;
    return strstr(err.text, "sysctl 'net.ipv4.no_such_thing'") == err.text ? 0 : 5;
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
    if (geteuid() == 0)
        in_child(write_sysctl, "parameters of a new network namespace are written, a missing one is named");
    else
        skip("a network namespace needs root");
}

static int set_batch(void)
{
    struct error err = {0};
    struct sched_plan plan;
    const char *flag = "SCHED_FLAG_RESET_ON_FORK";
    const struct spec_scheduler scheduler = {.policy = "SCHED_BATCH", .nice = {true, 5}, .flags = {&flag, 1}};
    if (sched_plan(&scheduler, &plan, &err) < 0 || sched_apply(&plan, &err) < 0)
        return 1;
    return sched_getscheduler(0) == (SCHED_BATCH | SCHED_RESET_ON_FORK) && getpriority(PRIO_PROCESS, 0) == 5
               ? 0
               : 2;
}

static int set_affinity(void)
{
    struct error err = {0};
    struct sched_affinity_plan plan;
    cpu_set_t set;
    if (sched_affinity_plan(&arena, &(struct spec_cpu_affinity){.initial = "0", .final = ""}, &plan, &err) <
            0 ||
        sched_apply_initial(&plan, &err) < 0 || sched_apply_final(&plan, &err) < 0)
        return 1;
    if (sched_getaffinity(0, sizeof(set), &set) < 0 || CPU_COUNT(&set) != 1 || !CPU_ISSET(0, &set))
        return 2;
    if (sched_affinity_plan(&arena, &(struct spec_cpu_affinity){.final = "5000"}, &plan, &err) < 0 ||
        sched_apply_final(&plan, &err) == 0)
        return 3;
    return strcmp(err.text, "process.execCPUAffinity.final: none of the CPUs is available") == 0 ? 0 : 4;
}

static int set_ioprio(void)
{
    struct error err = {0};
    struct ioprio_plan plan;
    const struct spec_io_priority priority = {"IOPRIO_CLASS_BE", {true, 6}};
    if (ioprio_plan(&priority, &plan, &err) < 0 || ioprio_apply(&plan, &err) < 0)
        return 1;
    return syscall(SYS_ioprio_get, 1, 0) == (2 << 13 | 6) ? 0 : 2;
}

static int set_mempolicy(void)
{
    struct error err = {0};
    struct mempolicy_plan plan;
    int mode = -1;
    const struct spec_memory_policy policy = {.mode = "MPOL_BIND", .nodes = "0"};
    if (mempolicy_plan(&arena, &policy, &plan, &err) < 0)
        return 1;
    if (mempolicy_apply(&plan, &err) < 0)
        return err.code == -ENOSYS ? 0 : 2; /* a kernel without NUMA */
    return syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) == 0 && mode == 2 ? 0 : 3;
}

static int set_linux32(void)
{
    struct error err = {0};
    struct personality_plan plan;
    if (personality_plan(&(struct spec_personality){.domain = "LINUX32"}, &plan, &err) < 0 ||
        personality_apply(&plan, &err) < 0)
        return 1;
    return personality(0xffffffff) == PER_LINUX32 ? 0 : 2;
}

static int set_oom_score(void)
{
    struct error err = {0};
    char value[16];
    const struct spec_process process = {.oom_score_adj = {true, 321}};
    if (oom_apply(&process, getpid(), &err) < 0 ||
        io_read_small_at(AT_FDCWD, "/proc/self/oom_score_adj", value, sizeof(value)) < 0)
        return 1;
    return strcmp(value, "321") == 0 ? 0 : 2;
}

static void test_errors(void)
{
    struct error err = {0};
    struct sched_plan sched;
    is_int(sched_plan(&(struct spec_scheduler){.policy = "SCHED_FAIR"}, &sched, &err), -EINVAL,
           "an unknown scheduling policy");
    is_str(err.text, "process.scheduler.policy: unknown policy 'SCHED_FAIR'", "… is named");
    is_int(sched_plan(NULL, &sched, &err), 0, "no scheduler");
    is_int(sched_apply(&sched, &err), 0, "… is nothing to do");
    struct ioprio_plan ioprio;
    is_int(ioprio_plan(&(struct spec_io_priority){"IOPRIO_CLASS_RT", {true, 8}}, &ioprio, &err), -EINVAL,
           "I/O priorities end at 7");
    struct personality_plan personality_;
    is_int(personality_plan(&(struct spec_personality){.domain = "BSD"}, &personality_, &err), -EINVAL,
           "an unknown personality");
    struct mempolicy_plan mempolicy;
    is_int(mempolicy_plan(&arena, &(struct spec_memory_policy){.mode = "MPOL_BIND", .nodes = "x"}, &mempolicy,
                          &err),
           -EINVAL, "memory nodes that are no list");
    is_int(mempolicy_plan(&arena, &(struct spec_memory_policy){.mode = "MPOL_NEAR"}, &mempolicy, &err),
           -EINVAL, "an unknown memory policy");
}

int main(void)
{
    test_bitlist();
    test_rlimits();
    test_sysctl();
    test_errors();
    in_child(set_batch, "scheduling policy, nice value and flags");
    in_child(set_affinity, "cpu affinity of exec");
    in_child(set_ioprio, "I/O class and priority");
    in_child(set_mempolicy, "memory policy");
    in_child(set_linux32, "personality LINUX32");
    in_child(set_oom_score, "out-of-memory score");
    arena_free(&arena);
    return done_testing();
}
