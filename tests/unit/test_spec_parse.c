/* spec/spec.h, the parser: every object of config.json reaches its structure, and every wrong value is an
 * error. */
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "spec/spec.h"
#include "unit.h"

static struct arena arena;
static struct error error;

static struct spec *parse(const char *text)
{
    struct spec *spec = NULL;
    error = (struct error){0};
    return spec_parse(&arena, text, strlen(text), &spec, &error) == 0 ? spec : NULL;
}

/* Return a config.json with the given members in addition to the version. */
static struct spec *parse_with(const char *members)
{
    return parse(arena_printf(&arena, "{\"ociVersion\":\"1.3.0\",%s}", members));
}

static struct spec *must_parse(const char *members)
{
    struct spec *spec = parse_with(members);
    if (spec == NULL)
        bail_out("%s: %s", members, error.text);
    return spec;
}

static void test_process(void)
{
    const struct spec_process *p =
        must_parse(
            "\"process\":{\"terminal\":true,\"consoleSize\":{\"height\":24,\"width\":80},"
            "\"user\":{\"uid\":1,\"gid\":4294967294,\"umask\":18,\"additionalGids\":[5,6],\"username\":\"u\"}"
            ","
            "\"args\":[\"a\",\"\"],\"env\":[\"A=1\"],\"cwd\":\"/w\","
            "\"capabilities\":{\"bounding\":[\"CAP_KILL\"],\"effective\":[],\"ambient\":[\"CAP_CHOWN\",\"CAP_"
            "KILL\"]},"
            "\"rlimits\":[{\"type\":\"RLIMIT_CORE\",\"hard\":18446744073709551615,\"soft\":0}],"
            "\"noNewPrivileges\":true,\"apparmorProfile\":\"p\",\"selinuxLabel\":\"\",\"oomScoreAdj\":-1000,"
            "\"scheduler\":{\"policy\":\"SCHED_BATCH\",\"nice\":-5,\"flags\":[\"SCHED_FLAG_RECLAIM\"]},"
            "\"ioPriority\":{\"class\":\"IOPRIO_CLASS_BE\",\"priority\":4},"
            "\"execCPUAffinity\":{\"initial\":\"0-1\",\"final\":\"1\"}}")
            ->process;
    ok(p->terminal && p->no_new_privileges, "process: booleans");
    ok(p->console_size.height == 24 && p->console_size.width == 80, "process.consoleSize");
    ok(p->user.uid == 1 && p->user.gid == 4294967294, "process.user: ids up to the largest");
    ok(p->user.umask.set && p->user.umask.value == 022, "process.user.umask");
    ok(p->user.additional_gids.count == 2 && p->user.additional_gids.items[1] == 6,
       "process.user.additionalGids");
    is_str(p->user.username, "u", "process.user.username");
    ok(p->args.count == 2 && *p->args.items[1] == '\0', "process.args: an empty argument is one");
    ok(p->env.count == 1 && strcmp(p->env.items[0], "A=1") == 0, "process.env");
    is_str(p->cwd, "/w", "process.cwd");
    ok(p->capabilities->bounding.count == 1 && p->capabilities->effective.count == 0 &&
           p->capabilities->permitted.count == 0 && p->capabilities->ambient.count == 2,
       "process.capabilities: five lists");
    is_str(p->rlimits.items[0].type, "RLIMIT_CORE", "process.rlimits: type");
    ok(p->rlimits.items[0].hard == UINT64_MAX && p->rlimits.items[0].soft == 0,
       "process.rlimits: RLIM_INFINITY is exact");
    is_str(p->apparmor_profile, "p", "process.apparmorProfile");
    ok(p->selinux_label == NULL, "process.selinuxLabel: empty means none");
    ok(p->oom_score_adj.set && p->oom_score_adj.value == -1000, "process.oomScoreAdj");
    ok(p->scheduler->nice.value == -5 && !p->scheduler->priority.set && p->scheduler->flags.count == 1,
       "process.scheduler");
    ok(p->io_priority->priority.value == 4, "process.ioPriority");
    is_str(p->exec_cpu_affinity->final, "1", "process.execCPUAffinity");

    p = must_parse("\"process\":{\"cwd\":\"/\",\"capabilities\":null}")->process;
    ok(p->capabilities == NULL && !p->oom_score_adj.set, "null and absent are the same");
}

/* An image chooses its environment. */
static void test_environment(void)
{
    const struct str_list *env =
        &must_parse(
             "\"process\":{\"cwd\":\"/\",\"env\":[\"A=1\",\"AB=1\",\"B\",\"A=2\",\"C\",\"=x\",\"B=3\",\"A\","
             "\"\",\"AB=1\"]}")
             ->process->env;
    static const char *const kept[] = {"A=2", "C", "B=3", "A", "AB=1"};
    ok(env->count == 5, "process.env: a variable that is set twice is there once");
    for (size_t i = 0; i < 5 && i < env->count; i++)
        is_str(env->items[i], kept[i], "... the last one: %s", kept[i]);

    const size_t many = 200000, size = many * 12;
    char *text = arena_alloc(&arena, size), *end = text;
    for (size_t i = 0; i < many; i++)
        end += snprintf(end, size - (size_t)(end - text), "%s\"V%zu=\"", i > 0 ? "," : "", i);
    const clock_t begin = clock();
    env = &must_parse(arena_printf(&arena, "\"process\":{\"cwd\":\"/\",\"env\":[%s]}", text))->process->env;
    ok(env->count == many && clock() - begin < 5 * CLOCKS_PER_SEC,
       "process.env: many variables take no time");
}

static void test_document(void)
{
    const struct spec *s =
        must_parse("\"root\":{\"path\":\"r\",\"readonly\":true},\"hostname\":\"h\",\"domainname\":\"d\","
                   "\"mounts\":[{\"destination\":\"a/b\"},{\"destination\":\"/"
                   "c\",\"type\":\"bind\",\"source\":\"/s\",\"options\":[\"ro\"],"
                   "\"uidMappings\":[{\"containerID\":0,\"hostID\":1000,\"size\":1}],\"gidMappings\":[{"
                   "\"containerID\":0,\"hostID\":1000,\"size\":4294967295}]}],"
                   "\"hooks\":{\"prestart\":[{\"path\":\"/h\"}],\"poststop\":[{\"path\":\"/"
                   "p\",\"args\":[\"p\",\"q\"],\"env\":[],\"timeout\":3}]},"
                   "\"annotations\":{\"a.b\":\"1\",\"c\":\"\"},\"windows\":{\"anything\":[1]},\"unknown\":3");
    ok(s->root->readonly, "root");
    is_str(s->hostname, "h", "hostname");
    is_str(s->domainname, "d", "domainname");
    is_str(s->mounts.items[0].destination, "/a/b", "mounts: a relative destination counts from /");
    ok(s->mounts.items[0].type == NULL && s->mounts.items[0].options.count == 0,
       "mounts: only the destination is needed");
    is_str(s->mounts.items[1].destination, "/c", "mounts: an absolute destination stays");
    is_int(s->mounts.items[1].gid_mappings.items[0].size, UINT32_MAX, "mounts: mappings");
    ok(!s->hooks.prestart.items[0].has_env && s->hooks.poststop.items[0].has_env,
       "hooks: an empty env differs from none");
    ok(s->hooks.poststop.items[0].args.count == 2 && s->hooks.poststop.items[0].timeout.value == 3,
       "hooks: args and timeout");
    is_int(s->hooks.poststart.count, 0, "hooks: an absent list is empty");
    is_str(spec_annotation(s, "a.b"), "1", "annotations: found by key");
    ok(spec_annotation(s, "nothing") == NULL, "annotations: an unknown key has no value");
    ok(s->linux_ != NULL && s->linux_->namespaces.count == 0, "linux is never NULL");
}

static void test_linux(void)
{
    const struct spec *s = must_parse(
        "\"linux\":{\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"network\",\"path\":\"/run/netns/"
        "x\"},{\"type\":\"uts\",\"path\":\"\"}],"
        "\"uidMappings\":[{\"containerID\":0,\"hostID\":1,\"size\":2}],\"gidMappings\":[],"
        "\"timeOffsets\":{\"monotonic\":{\"secs\":-5,\"nanosecs\":999999999},\"boottime\":{\"secs\":"
        "9223372036854775807}},"
        "\"devices\":[{\"type\":\"c\",\"path\":\"/dev/"
        "x\",\"major\":10,\"minor\":0,\"fileMode\":8630,\"uid\":7}],"
        "\"netDevices\":{\"eth0\":{\"name\":\"e\"},\"eth1\":{}},\"cgroupsPath\":\"/a\","
        "\"memoryPolicy\":{\"mode\":\"MPOL_BIND\",\"nodes\":\"0\",\"flags\":[\"MPOL_F_STATIC_NODES\"]},"
        "\"sysctl\":{\"net.ipv4.ip_forward\":\"1\"},\"rootfsPropagation\":\"rslave\",\"maskedPaths\":[\"/"
        "m\"],"
        "\"readonlyPaths\":[\"/r\"],\"mountLabel\":\"l\",\"personality\":{\"domain\":\"LINUX32\"}}");
    const struct spec_linux *l = s->linux_;
    ok(spec_new_namespace(s, "pid") && !spec_new_namespace(s, "network") && !spec_new_namespace(s, "ipc"),
       "linux.namespaces: new, joined and absent ones");
    is_str(spec_namespace(s, "network")->path, "/run/netns/x", "linux.namespaces: path");
    ok(spec_new_namespace(s, "uts"), "linux.namespaces: an empty path means a new one");
    ok(l->uid_mappings.items[0].host_id == 1 && l->uid_mappings.items[0].size == 2, "linux.uidMappings");
    ok(l->time_offsets.count == 2 && l->time_offsets.items[0].secs == -5 &&
           l->time_offsets.items[0].nanosecs == 999999999,
       "linux.timeOffsets");
    is_str(l->time_offsets.items[1].clock, "boottime", "linux.timeOffsets: the key names the clock");
    ok(l->time_offsets.items[1].secs == INT64_MAX, "linux.timeOffsets: the largest signed number is exact");
    ok(l->devices.items[0].major.value == 10 && l->devices.items[0].minor.set &&
           l->devices.items[0].file_mode.value == 0020666 && !l->devices.items[0].gid.set,
       "linux.devices");
    is_str(l->net_devices.items[0].new_name, "e", "linux.netDevices: new name");
    ok(l->net_devices.items[1].new_name == NULL, "linux.netDevices: no new name");
    ok(l->memory_policy->flags.count == 1, "linux.memoryPolicy");
    is_str(l->sysctl.items[0].value, "1", "linux.sysctl");
    is_str(l->rootfs_propagation, "rslave", "linux.rootfsPropagation");
    ok(l->masked_paths.count == 1 && l->readonly_paths.count == 1, "linux.maskedPaths, readonlyPaths");
    is_str(l->mount_label, "l", "linux.mountLabel");
    is_str(l->personality->domain, "LINUX32", "linux.personality");
    ok(l->seccomp_text.data == NULL && l->resources == NULL && l->resources_text.data == NULL,
       "absent parts are absent");
}

static void test_resources(void)
{
    static const char text[] =
        "{\"devices\":[{\"allow\":true,\"type\":\"c\",\"major\":1,\"minor\":-1,\"access\":\"rw\"},{\"allow\":"
        "false}],"
        "\"memory\":{\"limit\":-1,\"swap\":9223372036854775807,\"reservation\":0,\"checkBeforeUpdate\":false,"
        "\"swappiness\":18446744073709551615},"
        "\"cpu\":{\"shares\":18446744073709551615,\"quota\":-9223372036854775808,\"cpus\":\"\",\"idle\":1},"
        "\"pids\":{\"limit\":2048},"
        "\"blockIO\":{\"weight\":10,\"weightDevice\":[{\"major\":8,\"minor\":0,\"weight\":500}],"
        "\"throttleReadBpsDevice\":[{\"major\":8,\"minor\":16,\"rate\":18446744073709551615}],"
        "\"throttleWriteIOPSDevice\":[{\"major\":1,\"minor\":2,\"rate\":3}]},"
        "\"hugepageLimits\":[{\"pageSize\":\"2MB\",\"limit\":4194304}],\"rdma\":{\"mlx5_0\":{\"hcaHandles\":"
        "3}},"
        "\"network\":{},\"unified\":{\"memory.high\":\"1\\n2\"}}";
    struct spec_resources *r = NULL;
    ok(spec_parse_resources(&arena, text, strlen(text), &r, &error) == 0,
       "a resources object alone is parsed");
    if (r == NULL)
        bail_out("%s", error.text);
    ok(r->devices.count == 2 && r->devices.items[0].allow && r->devices.items[0].minor.value == -1 &&
           !r->devices.items[1].allow && r->devices.items[1].access == NULL,
       "devices");
    ok(r->memory->limit.value == -1 && r->memory->swap.value == INT64_MAX && r->memory->reservation.set &&
           !r->memory->kernel.set && r->memory->check_before_update.set &&
           !r->memory->check_before_update.value,
       "memory: given and absent numbers and booleans differ");
    ok(r->memory->swappiness.value == UINT64_MAX && r->cpu->shares.value == UINT64_MAX &&
           r->cpu->quota.value == INT64_MIN,
       "the extremes of 64 bits are exact");
    ok(r->cpu->cpus != NULL && *r->cpu->cpus == '\0' && r->cpu->mems == NULL,
       "cpu.cpus: empty differs from absent");
    is_int(r->pids_limit.value, 2048, "pids.limit");
    ok(r->block_io->weight_device.items[0].weight.value == 500 &&
           r->block_io->throttle_read_bps.items[0].rate == UINT64_MAX &&
           r->block_io->throttle_write_bps.count == 0 && r->block_io->throttle_write_iops.items[0].rate == 3,
       "blockIO");
    is_str(r->hugepage_limits.items[0].page_size, "2MB", "hugepageLimits");
    is_str(r->rdma.items[0].device, "mlx5_0", "rdma: the key names the device");
    ok(r->rdma.items[0].hca_handles.set && !r->rdma.items[0].hca_objects.set, "rdma: values");
    ok(!r->has_network, "network: an empty object asks for nothing");
    is_str(r->unified.items[0].value, "1\n2", "unified");
    struct spec *s = must_parse("\"linux\":{\"resources\":{\"network\":{\"classID\":1}, \"pids\":{}}}");
    ok(s->linux_->resources->has_network, "network: a class is noticed");
    is_str(arena_strndup(&arena, s->linux_->resources_text.data, s->linux_->resources_text.size),
           "{\"network\":{\"classID\":1}, \"pids\":{}}", "linux.resources keeps its text");
}

static void test_seccomp(void)
{
    static const char profile[] =
        "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":38,\"architectures\":[\"SCMP_ARCH_X86_"
        "64\"],\"flags\":[\"SECCOMP_FILTER_FLAG_LOG\"],"
        "\"listenerPath\":\"/"
        "l\",\"listenerMetadata\":\"m\",\"syscalls\":[{\"names\":[\"read\",\"write\"],\"action\":\"SCMP_ACT_"
        "ALLOW\"},"
        "{\"names\":[\"clone\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":1,\"args\":[{\"index\":5,"
        "\"value\":18446744073709551615,\"valueTwo\":2,\"op\":\"SCMP_CMP_MASKED_EQ\"}]}]}";
    const struct spec *s =
        must_parse(arena_printf(&arena, "\"linux\":{\"seccomp\" : %s , \"mountLabel\":\"x\"}", profile));
    struct json_text text = s->linux_->seccomp_text;
    is_str(arena_strndup(&arena, text.data, text.size), profile,
           "linux.seccomp keeps its text and nothing else");
    is_str(s->linux_->mount_label, "x", "later members are parsed");
    struct spec_seccomp *c = NULL;
    if (!is_int(spec_parse_seccomp(&arena, text, &c, &error), 0, "the text is parsed when it is needed"))
        bail_out("%s", error.text);
    is_str(c->default_action, "SCMP_ACT_ERRNO", "defaultAction");
    is_int(c->default_errno_ret.value, 38, "defaultErrnoRet");
    ok(c->architectures.count == 1 && c->flags.count == 1, "architectures, flags");
    ok(c->syscalls.count == 2 && c->syscalls.items[0].names.count == 2 && !c->syscalls.items[0].errno_ret.set,
       "syscalls");
    const struct spec_seccomp_arg *arg = &c->syscalls.items[1].args.items[0];
    ok(arg->index == 5 && arg->value == UINT64_MAX && arg->value_two == 2, "args");
    s = must_parse("\"linux\":{\"seccomp\":{\"defaultAction\":7}}");
    ok(s != NULL, "an error in the profile is not one of config.json");
    ok(spec_parse_seccomp(&arena, s->linux_->seccomp_text, &c, &error) < 0, "but one of the profile");
    is_str(error.text, "linux.seccomp.defaultAction: expected a string, found a number", "... with its path");
}

/* Each row: members of config.json, the error after "config.json: ". */
static const struct {
    const char *members, *message;
} wrong[] = {
    {"\"linux\":{\"resources\":{\"memory\":{\"limit\":\"1\"}}}",
     "linux.resources.memory.limit: expected an integer, found a string"},
    {"\"mounts\":[{\"destination\":\"/\"},{\"destination\":\"/\",\"options\":[\"a\",1]}]",
     "mounts[1].options[1]: expected a string, found a number"},
    {"\"mounts\":{}", "mounts: expected an array, found an object"},
    {"\"mounts\":[null]", "mounts[0]: expected an object, found null"},
    {"\"mounts\":[{}]", "mounts[0]: 'destination' is missing"},
    {"\"mounts\":[{\"destination\":\"\"}]", "mounts[0].destination: empty"},
    {"\"mounts\":[{\"destination\":\"/\",\"uidMappings\":[{\"containerID\":0,\"hostID\":0}]}]",
     "mounts[0].uidMappings[0]: 'size' is missing"},
    {"\"root\":{\"path\":\"r\",\"readonly\":1}", "root.readonly: expected a boolean, found a number"},
    {"\"root\":{}", "root: 'path' is missing"},
    {"\"root\":[]", "root: expected an object, found an array"},
    {"\"hostname\":true", "hostname: expected a string, found a boolean"},
    {"\"annotations\":[]", "annotations: expected an object, found an array"},
    {"\"annotations\":{\"a.b\":null}", "annotations[\"a.b\"]: expected a string, found null"},
    {"\"process\":{\"user\":{\"uid\":-1}}", "process.user.uid: -1 is out of range (0 to 4294967294)"},
    {"\"process\":{\"user\":{\"uid\":4294967295}}",
     "process.user.uid: 4294967295 is out of range (0 to 4294967294)"},
    {"\"process\":{\"user\":{\"uid\":1.0}}", "process.user.uid: expected an integer, found 1.0"},
    {"\"process\":{\"user\":{\"uid\":1e3}}", "process.user.uid: expected an integer, found 1e3"},
    {"\"process\":{\"user\":{\"umask\":512}}", "process.user.umask: 512 is out of range (0 to 511)"},
    {"\"process\":{\"user\":{\"additionalGids\":[1,\"2\"]}}",
     "process.user.additionalGids[1]: expected an integer, found a string"},
    {"\"process\":{\"cwd\":\"\"}", "process.cwd: empty"},
    {"\"process\":{\"oomScoreAdj\":1001}", "process.oomScoreAdj: 1001 is out of range (-1000 to 1000)"},
    {"\"process\":{\"rlimits\":[{\"type\":\"RLIMIT_FOO\",\"hard\":1,\"soft\":1}]}",
     "process.rlimits[0].type: unknown value 'RLIMIT_FOO' (known: RLIMIT_AS, RLIMIT_CORE, RLIMIT_CPU, "
     "RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_LOCKS, RLIMIT_MEMLOCK, RLIMIT_MSGQUEUE, RLIMIT_NICE, RLIMIT_NOFILE, "
     "RLIMIT_NPROC, RLIMIT_RSS, RLIMIT_RTPRIO, RLIMIT_RTTIME, RLIMIT_SIGPENDING, RLIMIT_STACK)"},
    {"\"process\":{\"rlimits\":[{\"type\":\"RLIMIT_CPU\",\"hard\":18446744073709551616,\"soft\":1}]}",
     "process.rlimits[0].hard: 18446744073709551616 is out of range (0 to 18446744073709551615)"},
    {"\"process\":{\"scheduler\":{\"policy\":\"SCHED_OTHER\",\"nice\":20}}",
     "process.scheduler.nice: 20 is out of range (-20 to 19)"},
    {"\"process\":{\"scheduler\":{\"policy\":\"SCHED_FIFO\",\"flags\":[\"X\"]}}",
     "process.scheduler.flags[0]: unknown value 'X' (known: SCHED_FLAG_RESET_ON_FORK, SCHED_FLAG_RECLAIM, "
     "SCHED_FLAG_DL_OVERRUN, SCHED_FLAG_KEEP_POLICY, SCHED_FLAG_KEEP_PARAMS, SCHED_FLAG_UTIL_CLAMP_MIN, "
     "SCHED_FLAG_UTIL_CLAMP_MAX)"},
    {"\"process\":{\"ioPriority\":{\"class\":\"IOPRIO_CLASS_BE\",\"priority\":8}}",
     "process.ioPriority.priority: 8 is out of range (0 to 7)"},
    {"\"hooks\":{\"poststop\":[{\"path\":\"/x\",\"timeout\":0}]}",
     "hooks.poststop[0].timeout: 0 is out of range (1 to 2147483647)"},
    {"\"hooks\":{\"poststop\":[{\"path\":\"/x\",\"timeout\":-1}]}",
     "hooks.poststop[0].timeout: -1 is out of range (1 to 2147483647)"},
    {"\"linux\":{\"namespaces\":[{\"type\":\"net\"}]}",
     "linux.namespaces[0].type: unknown value 'net' (known: cgroup, ipc, mount, network, pid, time, user, "
     "uts)"},
    {"\"linux\":{\"namespaces\":[{\"path\":\"/x\"}]}", "linux.namespaces[0]: 'type' is missing"},
    {"\"linux\":{\"timeOffsets\":{\"monotonic\":{\"nanosecs\":1000000000}}}",
     "linux.timeOffsets.monotonic.nanosecs: 1000000000 is out of range (0 to 999999999)"},
    {"\"linux\":{\"timeOffsets\":{\"monotonic\":{\"secs\":9223372036854775808}}}",
     "linux.timeOffsets.monotonic.secs: 9223372036854775808 is out of range (-9223372036854775808 to "
     "9223372036854775807)"},
    {"\"linux\":{\"rootfsPropagation\":\"public\"}",
     "linux.rootfsPropagation: unknown value 'public' (known: shared, slave, private, unbindable, rshared, "
     "rslave, rprivate, runbindable)"},
    {"\"linux\":{\"seccomp\":[[]]}", "linux.seccomp: expected an object, found an array"},
    {"\"linux\":{\"resources\":{\"devices\":[{\"type\":\"c\"}]}}",
     "linux.resources.devices[0]: 'allow' is missing"},
    {"\"linux\":{\"resources\":{\"cpu\":{\"idle\":2}}}",
     "linux.resources.cpu.idle: 2 is out of range (0 to 1)"},
    {"\"linux\":{\"sysctl\":{\"a\":1}}", "linux.sysctl.a: expected a string, found a number"},
    {"\"linux\":{\"personality\":{\"domain\":\"BSD\"}}",
     "linux.personality.domain: unknown value 'BSD' (known: LINUX, LINUX32)"},
    {"\"root\":{\"path\":\"a\",\"path\":\"b\"}", "root.path: given twice"},
    {"\"ociVersion\":\"1.0.0\"", "ociVersion: given twice"},
};

static void test_wrong(void)
{
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        bool parsed = parse_with(wrong[i].members) != NULL;
        is_str(parsed ? "parsed" : error.text, arena_printf(&arena, "config.json: %s", wrong[i].message),
               "%s", wrong[i].message);
    }
    ok(parse("{}") == NULL && strcmp(error.text, "config.json: 'ociVersion' is missing") == 0,
       "ociVersion is needed");
    ok(parse("[]") == NULL && strcmp(error.text, "config.json: expected an object, found an array") == 0,
       "an array is no configuration");
    ok(parse("3") == NULL && strcmp(error.text, "config.json: expected an object, found a number") == 0,
       "a number is not an object");
    ok(parse("{\n,}") == NULL && strncmp(error.text, "config.json: line 2: ", 21) == 0,
       "an error of syntax has its line");
    struct spec_process *p;
    ok(spec_parse_process(&arena, "{\"args\":[0]}", 12, &p, &error) < 0,
       "a process object alone is checked as well");
    is_str(error.text, "process.args[0]: expected a string, found a number", "... with its path");
}

int main(void)
{
    test_process();
    test_environment();
    test_document();
    test_linux();
    test_resources();
    test_seccomp();
    test_wrong();
    arena_free(&arena);
    return done_testing();
}
