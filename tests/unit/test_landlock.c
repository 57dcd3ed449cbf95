/* The annotation run.pysbx.landlock: its rulesets on older and newer kernels, and refused values.
 * tests/integration/landlock.bats tests the rules in force. */
#include <errno.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json_out.h"
#include "sandbox/lsm/landlock.h"
#include "sandbox/lsm/landlock_abi.h"
#include "unit.h"

#define NEWEST 7

static struct arena arena;
static struct error err;

static struct landlock_plan plan_for(const char *annotation, int abi)
{
    struct landlock_plan plan;
    err = (struct error){0};
    if (landlock_plan(&arena, annotation, abi, &plan, &err) < 0)
        bail_out("%s: %s", annotation, err.text);
    return plan;
}

static int refused(const char *annotation, int abi)
{
    struct landlock_plan plan;
    err = (struct error){0};
    return landlock_plan(&arena, annotation, abi, &plan, &err);
}

/* Return the rights at a path, in all its rules. */
static uint64_t access_at(const struct landlock_plan *plan, const char *path)
{
    uint64_t access = 0;
    for (size_t i = 0; i < plan->path_count; i++)
        if (strcmp(plan->paths[i].path, path) == 0)
            access |= plan->paths[i].access;
    return access;
}

static void test_default(void)
{
    struct landlock_plan plan = plan_for(NULL, NEWEST);
    ok(!landlock_active(&plan), "without the annotation nothing is restricted");
    plan = plan_for("default", 0);
    ok(!landlock_active(&plan), "a kernel without Landlock restricts nothing, unless it is required");
    plan = plan_for("default", NEWEST);
    ok(landlock_active(&plan), "default: restricts");
    is_int(access_at(&plan, "/"), FS_EXECUTE | FS_READ_FILE | FS_READ_DIR,
           "everything can be read and executed");
    ok((access_at(&plan, "/tmp") & FS_MAKE_REG) != 0, "/tmp can be changed");
    ok((access_at(&plan, "/tmp") & (FS_MAKE_BLOCK | FS_MAKE_CHAR)) == 0,
       "… but no device nodes can be created in it");
    is_int(access_at(&plan, "/dev/null"), FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_IOCTL_DEV,
           "/dev/null can be used");
    is_int(plan.enforced.of[LANDLOCK_FS], 0xffff, "all rights about files are restricted");
    is_int(plan.enforced.of[LANDLOCK_NET], NET_BIND_TCP | NET_CONNECT_TCP, "… both about TCP");
    is_int(plan.port_count, 0, "… with no port open");
    is_int(plan.enforced.of[LANDLOCK_SCOPE], SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL, "… both scopes");
    is_int(plan.enforced.of[LANDLOCK_FLAG], FLAG_LOG_SUBDOMAINS_OFF, "… and the audit log is spared");
    bool optional = true;
    for (size_t i = 0; i < plan.path_count; i++)
        optional = optional && (plan.paths[i].optional || strcmp(plan.paths[i].path, "/") == 0);
    ok(optional, "every path but / may be missing");
    struct landlock_plan empty = plan_for("{}", NEWEST);
    is_int(empty.path_count, plan.path_count, "an empty object is the same");
}

static void test_lists(void)
{
    struct landlock_plan plan = plan_for("{\"filesystem\": {\"read\": [\"/usr\"], \"write\": [], "
                                         "\"execute\": [\"-/usr/bin\"], \"device\": []}}",
                                         NEWEST);
    is_int(plan.path_count, 2, "given lists replace the default ones");
    is_int(access_at(&plan, "/usr"), FS_READ_FILE | FS_READ_DIR, "with `execute`, reading is only that");
    is_int(access_at(&plan, "/usr/bin"), FS_EXECUTE | FS_READ_FILE, "… and executing has its own paths");
    ok(plan.paths[0].follow, "links to readable files are followed");
    ok(!plan.paths[0].optional && plan.paths[1].optional, "a path that begins with '-' may be missing");
    plan = plan_for("{\"filesystem\": {\"write\": [\"/srv\"]}}", NEWEST);
    is_int(access_at(&plan, "/tmp"), 0, "`write` elsewhere closes /tmp");
    ok((access_at(&plan, "/srv") & FS_EXECUTE) != 0, "without `execute`, writable files can be executed");
    plan = plan_for("{\"network\": {\"bind\": [0, 8080], \"connect\": \"any\"}, \"scope\": [\"signal\"]}",
                    NEWEST);
    is_int(plan.enforced.of[LANDLOCK_NET], NET_BIND_TCP, "any: that is not restricted");
    is_int(plan.port_count, 2, "a rule for each port");
    is_int(plan.ports[1].port, 8080, "… with its number");
    is_int(plan.ports[1].access, NET_BIND_TCP, "… and its right");
    is_int(plan.enforced.of[LANDLOCK_SCOPE], SCOPE_SIGNAL, "scope: those named");
    plan = plan_for("{\"scope\": [], \"log\": true, \"network\": {}}", NEWEST);
    is_int(plan.enforced.of[LANDLOCK_SCOPE], 0, "… or none");
    is_int(plan.enforced.of[LANDLOCK_FLAG], FLAG_LOG_NEW_EXEC_ON, "log: the program's denials");
    landlock_plan_silence(&plan);
    ok(plan.silenced && plan.enforced.of[LANDLOCK_FLAG] == FLAG_LOG_SUBDOMAINS_OFF &&
           plan.dropped.of[LANDLOCK_FLAG] == FLAG_LOG_NEW_EXEC_ON,
       "… unless the log is not allowed");
    plan = plan_for("{}", NEWEST);
    landlock_plan_silence(&plan);
    ok(!plan.silenced && plan.dropped.of[LANDLOCK_FLAG] == 0, "… without a message if none is requested");
    is_int(plan.enforced.of[LANDLOCK_NET], NET_BIND_TCP | NET_CONNECT_TCP, "an empty network has no ports");
}

/* The additions of each ABI, from linux/landlock.h. */
static void test_best_effort(void)
{
    static const struct {
        uint64_t fs, net, scope;
    } abis[] = {
        {0, 0, 0},      {0x1fff, 0, 0}, {0x3fff, 0, 0}, {0x7fff, 0, 0}, {0x7fff, 3, 0},
        {0xffff, 3, 0}, {0xffff, 3, 3}, {0xffff, 3, 3}, {0xffff, 3, 3},
    };
    for (int abi = 0; abi < (int)(sizeof(abis) / sizeof(abis[0])); abi++) {
        struct landlock_plan plan = plan_for("default", abi);
        is_int(plan.enforced.of[LANDLOCK_FS], abis[abi].fs, "ABI %d: files", abi);
        is_int(plan.enforced.of[LANDLOCK_NET], abis[abi].net, "ABI %d: network", abi);
        is_int(plan.enforced.of[LANDLOCK_SCOPE], abis[abi].scope, "ABI %d: scope", abi);
        is_int(plan.dropped.of[LANDLOCK_FS], 0xffff & ~abis[abi].fs, "ABI %d: omitted rules are reported",
               abi);
        is_int(plan.enforced.of[LANDLOCK_FLAG] != 0, abi >= 7, "ABI %d: flags", abi);
    }
}

static void test_required(void)
{
    is_int(refused("{\"enforcement\": \"required\"}", 6), 0, "required: satisfied by ABI 6");
    is_int(refused("{\"enforcement\": \"required\"}", 4), -ENOTSUP, "… refused on ABI 4");
    is_str(
        err.text,
        "annotation 'run.pysbx.landlock': enforcement is 'required' and the kernel's Landlock (ABI 4) lacks "
        "ioctl-dev, abstract-unix-socket, signal: Linux 6.12 or later is needed",
        "… by name");
    is_int(refused(
               "{\"enforcement\": \"required\", \"scope\": [], \"network\": {\"bind\": \"any\", \"connect\": "
               "\"any\"}}",
               5),
           0, "… only for the needs of the ruleset");
    is_int(refused("{\"enforcement\": \"required\", \"log\": true}", 6), -ENOTSUP, "… the log is one of it");
    is_int(refused("{\"enforcement\": \"required\"}", 0), -ENOTSUP, "… refused without Landlock");
    ok(strstr(err.text, "there is no Landlock: Linux 6.12 or later is needed") != NULL, "… with the remedy");
}

static void test_errors(void)
{
    static const struct {
        const char *annotation, *text;
    } bad[] = {
        {"", "empty: \"default\" or a ruleset in JSON is expected"},
        {"[]", "expected an object, found an array"},
        {"{\"files\": {}}", "files: unknown property"},
        {"{\"filesystem\": {\"reed\": []}}", "filesystem.reed: unknown property"},
        {"{\"filesystem\": []}", "filesystem: expected an object, found an array"},
        {"{\"filesystem\": {\"read\": \"/\"}}", "filesystem.read: expected an array, found a string"},
        {"{\"filesystem\": {\"read\": [\"/\", 1]}}", "filesystem.read[1]: expected a string, found a number"},
        {"{\"filesystem\": {\"write\": [\"\"]}}", "filesystem.write[0]: empty"},
        {"{\"filesystem\": {\"write\": [\"-\"]}}", "filesystem.write[0]: '' is not an absolute path"},
        {"{\"filesystem\": {\"write\": [\"/a\", \"tmp\"]}}",
         "filesystem.write[1]: 'tmp' is not an absolute path"},
        {"{\"network\": 1}", "network: expected an object, found a number"},
        {"{\"network\": {\"listen\": []}}", "network.listen: unknown property"},
        {"{\"network\": {\"bind\": \"all\"}}", "network.bind: expected an array of ports, or \"any\""},
        {"{\"network\": {\"connect\": [65536]}}", "network.connect[0]: 65536 is out of range (0 to 65535)"},
        {"{\"scope\": [\"sockets\"]}", "scope[0]: unknown value 'sockets'"},
        {"{\"enforcement\": \"strict\"}", "enforcement: unknown value 'strict'"},
        {"{\"log\": 1}", "log: expected a boolean, found a number"},
        {"{\"scope\": [], \"scope\": []}", "scope: "},
        {"Default", "'Default': \"default\" or a ruleset"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        static const char prefix[] = "annotation 'run.pysbx.landlock': ";
        is_int(refused(bad[i].annotation, NEWEST), -EINVAL, "refused: '%s'", bad[i].annotation);
        if (!ok(strncmp(err.text, prefix, sizeof(prefix) - 1) == 0 && strstr(err.text, bad[i].text) != NULL,
                "… because of %s", bad[i].text))
            diag("%s", err.text);
    }
}

static void test_describe(void)
{
    cleanup_json_out struct json_out *out = json_out_new(false);
    struct landlock_plan plan = plan_for(
        "{\"filesystem\": {\"read\": [\"/\"], \"write\": [\"-/srv\"], \"execute\": [], \"device\": []}, "
        "\"network\": {\"bind\": \"any\", \"connect\": [443]}, \"log\": true}",
        4);
    landlock_describe(&plan, out);
    is_str(
        json_out_text(out, NULL),
        "{\"abi\":4,\"enforcement\":\"best-effort\",\"restricted\":[\"execute\",\"write-file\",\"read-file\","
        "\"read-dir\",\"remove-dir\",\"remove-file\",\"make-char\",\"make-dir\",\"make-reg\",\"make-sock\","
        "\"make-fifo\",\"make-block\",\"make-sym\",\"refer\",\"truncate\",\"connect-tcp\"],\"dropped\":["
        "\"ioctl-dev\",\"abstract-unix-socket\",\"signal\",\"log\"],\"log\":false,\"paths\":[{\"path\":\"/\","
        "\"optional\":false,\"followLinks\":true,\"allowed\":[\"read-file\",\"read-dir\"]},{\"path\":\"/"
        "srv\","
        "\"optional\":true,\"followLinks\":false,"
        "\"allowed\":[\"write-file\",\"read-file\",\"read-dir\",\"remove-dir\",\"remove-file\",\"make-dir\","
        "\"make-reg\",\"make-sock\",\"make-fifo\",\"make-sym\",\"refer\",\"truncate\"]}],\"ports\":[{"
        "\"port\":"
        "443,\"allowed\":[\"connect-tcp\"]}]}",
        "the plan lists restricted, omitted and allowed rights");
}

int main(void)
{
    test_default();
    test_lists();
    test_best_effort();
    test_required();
    test_errors();
    test_describe();
    arena_free(&arena);
    return done_testing();
}
