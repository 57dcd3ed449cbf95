/* System call filters: the compiled form of a profile, the range optimizer, the ENOSYS stub, the cache,
 * loading. A small interpreter runs the programs here, so that the tests check their answers without a
 * kernel. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json_out.h"
#include "base/str.h"
#include "sandbox/seccomp/compile.h"
#include "sandbox/seccomp/optimize.h"
#include "sandbox/seccomp/seccomp.h"
#include "sandbox/seccomp/stub.h"
#include "spec/spec.h"
#include "unit.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#endif

#define OTHER_ARCH 0xdeadbeefU

static uint32_t run_program(const struct sock_filter *filter, size_t count, const struct seccomp_data *data)
{
    uint32_t a = 0;
    for (size_t pc = 0; pc < count; pc++) {
        const struct sock_filter *f = &filter[pc];
        switch (f->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            memcpy(&a, (const char *)data + f->k, sizeof(a));
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= f->k;
            break;
        case BPF_JMP | BPF_JA:
            pc += f->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            pc += a == f->k ? f->jt : f->jf;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            pc += a > f->k ? f->jt : f->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            pc += a >= f->k ? f->jt : f->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            pc += a & f->k ? f->jt : f->jf;
            break;
        case BPF_RET | BPF_K:
            return f->k;
        default:
            bail_out("instruction 0x%x is not known to the interpreter", f->code);
        }
    }
    bail_out("the program has no end");
}

static int compile(struct arena *a, const char *text, bool fail_unknown, struct seccomp_program *out,
                   struct error *err)
{
    struct spec_seccomp *profile;
    int ret = spec_parse_seccomp(a, (struct json_text){text, strlen(text)}, &profile, err);
    return ret < 0 ? ret : seccomp_compile(a, profile, fail_unknown, out, err);
}

/* Return a profile's answer to a call on the native architecture. */
static uint32_t answer(const char *text, int nr, uint64_t arg0, uint64_t arg1)
{
    struct arena a = {0};
    struct error err = {0};
    struct seccomp_program program;
    uint32_t result = 0;
    if (compile(&a, text, false, &program, &err) < 0)
        diag("%s", err.text);
    else
        result = run_program(program.filter, program.count,
                             &(struct seccomp_data){.nr = nr, .arch = NATIVE, .args = {arg0, arg1}});
    arena_free(&a);
    return result;
}

static void fails(const char *text, const char *expected)
{
    struct arena a = {0};
    struct error err = {0};
    struct seccomp_program program;
    int ret = compile(&a, text, true, &program, &err);
    ok(ret == -EINVAL && strstr(err.text, expected) != NULL, "error: %s", expected);
    if (ret == 0 || strstr(err.text, expected) == NULL)
        diag("got %d: %s", ret, err.text);
    arena_free(&a);
}

static void test_actions(void)
{
    static const struct {
        const char *action;
        uint32_t expected;
    } cases[] = {
        {"\"SCMP_ACT_KILL\"", SECCOMP_RET_KILL_THREAD},
        {"\"SCMP_ACT_KILL_THREAD\"", SECCOMP_RET_KILL_THREAD},
        {"\"SCMP_ACT_KILL_PROCESS\"", SECCOMP_RET_KILL_PROCESS},
        {"\"SCMP_ACT_TRAP\"", SECCOMP_RET_TRAP},
        {"\"SCMP_ACT_ERRNO\"", SECCOMP_RET_ERRNO | EPERM},
        {"\"SCMP_ACT_ERRNO\", \"errnoRet\": 95", SECCOMP_RET_ERRNO | 95},
        {"\"SCMP_ACT_ERRNO\", \"errnoRet\": 0", SECCOMP_RET_ERRNO},
        {"\"SCMP_ACT_TRACE\", \"errnoRet\": 7", SECCOMP_RET_TRACE | 7},
        {"\"SCMP_ACT_LOG\"", SECCOMP_RET_LOG},
        {"\"SCMP_ACT_NOTIFY\"", SECCOMP_RET_USER_NOTIF},
        {"\"SCMP_ACT_ALLOW\"", SECCOMP_RET_ALLOW},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text),
                 "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": [{\"names\": [\"chdir\"], "
                 "\"action\": %s}]}",
                 cases[i].action);
        is_int(answer(text, SYS_chdir, 0, 0), cases[i].expected, "action %s", cases[i].action);
        is_int(answer(text, SYS_fchdir, 0, 0), SECCOMP_RET_ALLOW, "… and no other system call");
    }
}

#define ALLOW_BUT(rule) "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": [" rule "]}"
#define MOUNT_RULE(args)                                                                                     \
    ALLOW_BUT("{\"names\": [\"mount\"], \"action\": \"SCMP_ACT_ERRNO\", \"args\": [" args "]}")
#define ARG(index, value, op) "{\"index\": " #index ", \"value\": " #value ", \"op\": \"SCMP_CMP_" #op "\"}"

static void test_arguments(void)
{
    const uint32_t refused = SECCOMP_RET_ERRNO | EPERM, allowed = SECCOMP_RET_ALLOW;
    const char *text = MOUNT_RULE(ARG(0, 5, EQ) ", " ARG(1, 9, GT));
    is_int(answer(text, SYS_mount, 5, 10), refused, "conditions on two arguments hold together");
    is_int(answer(text, SYS_mount, 5, 9), allowed, "… and one alone is not enough");
    text = MOUNT_RULE(ARG(0, 5, EQ) ", " ARG(0, 7, EQ));
    is_int(answer(text, SYS_mount, 7, 0), refused, "conditions on the same argument are alternatives");
    is_int(answer(text, SYS_mount, 6, 0), allowed, "… of which one has to hold");
    text = MOUNT_RULE("{\"index\": 0, \"value\": 240, \"valueTwo\": 16, \"op\": \"SCMP_CMP_MASKED_EQ\"}");
    is_int(answer(text, SYS_mount, 0x1f, 0), refused, "masked comparison: value is the mask");
    is_int(answer(text, SYS_mount, 0x2f, 0), allowed, "… and valueTwo the value to compare with");
    is_int(answer(MOUNT_RULE(ARG(0, 4294967301, EQ)), SYS_mount, 5, 0), allowed, "arguments have 64 bits");
    is_int(answer(MOUNT_RULE(ARG(0, 3, NE)), SYS_mount, 3, 0), allowed, "SCMP_CMP_NE");
    is_int(answer(MOUNT_RULE(ARG(0, 3, LT)), SYS_mount, 2, 0), refused, "SCMP_CMP_LT");
    is_int(answer(MOUNT_RULE(ARG(0, 3, LE)), SYS_mount, 3, 0), refused, "SCMP_CMP_LE");
    is_int(answer(MOUNT_RULE(ARG(0, 3, GE)), SYS_mount, 2, 0), allowed, "SCMP_CMP_GE");
}

static void test_unknown_names(void)
{
    const char *text = ALLOW_BUT("{\"names\": [\"warp_drive\", \"chdir\"], \"action\": \"SCMP_ACT_ERRNO\"}");
    is_int(answer(text, SYS_chdir, 0, 0), SECCOMP_RET_ERRNO | EPERM, "an unknown system call is skipped");
    fails(text, "linux.seccomp.syscalls[0].names[0]: unknown system call 'warp_drive'");
    fails(ALLOW_BUT("{\"names\": [\"chdir\"], \"action\": \"SCMP_ACT_KILL\", \"errnoRet\": 1}"),
          "linux.seccomp.syscalls[0].action: 'SCMP_ACT_KILL' takes no errno");
    fails(ALLOW_BUT("{\"names\": [\"chdir\"], \"action\": \"SCMP_ACT_ERRNO\", \"errnoRet\": 65536}"),
          "errno");
}

/* A profile that refuses by default. */
static void test_enosys(void)
{
    const char *text = "{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"syscalls\": "
                       "[{\"names\": [\"chdir\", \"openat2\"], \"action\": \"SCMP_ACT_ALLOW\"}]}";
    is_int(answer(text, SYS_openat2, 0, 0), SECCOMP_RET_ALLOW,
           "the newest system call of a profile is allowed");
    is_int(answer(text, SYS_fchdir, 0, 0), SECCOMP_RET_ERRNO | EPERM, "an older one gets the default");
    is_int(answer(text, SYS_openat2 + 1, 0, 0), SECCOMP_RET_ERRNO | ENOSYS, "a newer one does not exist");
    is_int(answer("{\"defaultAction\": \"SCMP_ACT_KILL\", \"syscalls\": "
                  "[{\"names\": [\"chdir\"], \"action\": \"SCMP_ACT_ALLOW\"}]}",
                  5000, 0, 0),
           SECCOMP_RET_KILL_THREAD, "with another default than ERRNO there is no exception");

    struct sock_filter stub[SECCOMP_STUB_MAX + 1];
    const struct seccomp_stub_limit limits[] = {{AUDIT_ARCH_AARCH64, 10}, {AUDIT_ARCH_X86_64, 20}, {1, -1}};
    size_t n = seccomp_stub(limits, 3, stub);
    stub[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_LOG);
    static const struct {
        uint32_t arch, nr, expected;
    } cases[] = {
        {AUDIT_ARCH_AARCH64, 10, SECCOMP_RET_LOG},
        {AUDIT_ARCH_AARCH64, 11, SECCOMP_RET_ERRNO | ENOSYS},
        {AUDIT_ARCH_X86_64, 20, SECCOMP_RET_LOG},
        {AUDIT_ARCH_X86_64, 21, SECCOMP_RET_ERRNO | ENOSYS},
        {AUDIT_ARCH_X86_64, 0x40000000 | 21, SECCOMP_RET_LOG}, /* x32 */
        {1, 1000, SECCOMP_RET_LOG},
        {OTHER_ARCH, 1000, SECCOMP_RET_LOG},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        is_int(run_program(stub, n, &(struct seccomp_data){.nr = (int)cases[i].nr, .arch = cases[i].arch}),
               cases[i].expected, "stub: number %u of architecture 0x%x", cases[i].nr, cases[i].arch);
}

/* A program like libseccomp's without its own optimizer: one comparison per number. Every seventh one
 * checks an argument. */
static size_t make_linear(struct sock_filter *f, unsigned numbers, unsigned seed)
{
    size_t n = 0;
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < numbers; i++) {
        seed = seed * 1103515245U + 12345U;
        bool argument = seed >> 16 & 1 && i % 7 == 0;
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, i, 0, argument ? 4 : 1);
        if (argument) {
            f[n++] =
                (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args));
            f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, i, 0, 1);
            f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1);
        }
        f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
                                              seed >> 20 & 3 ? SECCOMP_RET_ALLOW : SECCOMP_RET_LOG);
    }
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 2);
    return n;
}

static void test_optimizer(void)
{
    const uint32_t archs[] = {NATIVE};
    for (unsigned seed = 1; seed <= 8; seed++) {
        struct arena a = {0};
        static struct sock_filter old[BPF_MAXINSNS];
        unsigned numbers = seed * 120;
        size_t old_count = make_linear(old, numbers, seed), count = old_count;
        const struct sock_filter *filter = old;
        seccomp_optimize(&a, archs, 1, &filter, &count);
        unsigned different = 0;
        for (uint32_t nr = 0; nr < numbers + 20; nr++)
            for (uint32_t arch = 0; arch < 2; arch++)
                for (uint64_t arg = 0; arg < 2; arg++) {
                    struct seccomp_data data = {
                        .nr = (int)nr, .arch = arch ? NATIVE : OTHER_ARCH, .args = {arg ? nr : 5000}};
                    different += run_program(old, old_count, &data) != run_program(filter, count, &data);
                }
        is_int(different, 0, "%u numbers: the optimised program answers alike", numbers);
        ok(count < old_count, "… and is shorter (%zu, not %zu)", count, old_count);
        arena_free(&a);
    }
    struct arena a = {0};
    const struct sock_filter odd[] = {BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), BPF_STMT(BPF_RET | BPF_K, 0)};
    const struct sock_filter *filter = odd;
    size_t count = 2;
    seccomp_optimize(&a, archs, 1, &filter, &count);
    ok(filter == odd && count == 2, "a program with other instructions is left alone");
    const struct sock_filter wild[] = {BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 9, 0),
                                       BPF_STMT(BPF_RET | BPF_K, 0)};
    filter = wild;
    seccomp_optimize(&a, archs, 1, &filter, &count);
    ok(filter == wild && count == 2, "… and so is one whose jumps lead outside");
    arena_free(&a);
}

static const char *const profile_text =
    "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"flags\": [\"SECCOMP_FILTER_FLAG_LOG\"], \"syscalls\": "
    "[{\"names\": [\"chdir\"], \"action\": \"SCMP_ACT_ERRNO\", \"errnoRet\": 95}]}";

static struct seccomp_plan plan(struct arena *a, const char *text, int state_dir, const char *version)
{
    struct spec_linux linux_ = {.seccomp_text = {text, strlen(text)}};
    const struct spec spec = {.linux_ = &linux_};
    struct seccomp_plan out;
    struct error err = {0};
    if (seccomp_plan(a, &spec, &(struct seccomp_context){state_dir, version}, &out, &err) < 0) {
        diag("%s", err.text);
        out = (struct seccomp_plan){.origin = "error"};
    }
    return out;
}

static void test_cache(void)
{
    char directory[] = "/tmp/test_seccomp.XXXXXX", path[64], command[128];
    if (mkdtemp(directory) == NULL)
        bail_out("mkdtemp: %s", strerror(errno));
    int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct arena a = {0};
    is_str(plan(&a, profile_text, dir, "1").origin, "compiled", "a profile is compiled at the first time");
    struct seccomp_plan hit = plan(&a, profile_text, dir, "1"), fresh = plan(&a, profile_text, -1, "1");
    is_str(hit.origin, "cache", "… and found at the second");
    is_str(fresh.origin, "compiled", "without a state directory there is no cache");
    ok(hit.filter != NULL && fresh.filter != NULL && hit.count == fresh.count && hit.flags == fresh.flags &&
           memcmp(hit.filter, fresh.filter, hit.count * sizeof(*hit.filter)) == 0,
       "the program from the cache is the compiled one");
    is_int(hit.flags, SECCOMP_FILTER_FLAG_LOG, "… with the flags of the profile");
    is_str(plan(&a, profile_text, dir, "2").origin, "compiled",
           "another version of the runtime compiles again");
    snprintf(path, sizeof(path), "%s/.cache/seccomp", directory);
    chmod(path, 0755);
    is_str(plan(&a, profile_text, dir, "1").origin, "compiled",
           "a directory that others can read is not used");
    chmod(path, 0700);
    for (int i = 0; i < 70; i++) {
        char version[16];
        snprintf(version, sizeof(version), "v%d", i);
        plan(&a, profile_text, dir, version);
    }
    snprintf(command, sizeof(command), "test $(ls -A %s | wc -l) -eq 64", path);
    is_int(system(command), 0, "no more than 64 entries are kept");
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    if (system(command) != 0)
        diag("'%s' is left", directory);
    close(dir);
    arena_free(&a);
}

static void test_annotation(void)
{
    struct arena a = {0};
    struct error err = {0};
    struct spec_linux linux_ = {0};
    /* One instruction: return SECCOMP_RET_ALLOW (0x06 0 0 0 and 0x7fff0000, little endian). */
    struct str_pair pair = {"run.oci.seccomp_bpf_data", "BgAAAAAA/38="};
    struct spec spec = {.annotations = {&pair, 1}, .linux_ = &linux_};
    struct seccomp_plan out;
    const struct seccomp_context context = {-1, "1"};
    is_int(seccomp_plan(&a, &spec, &context, &out, &err), 0, "a program may come from an annotation");
    is_str(out.origin, "annotation", "… which is said");
    ok(out.count == 1 && out.filter[0].code == (BPF_RET | BPF_K) && out.filter[0].k == SECCOMP_RET_ALLOW,
       "… and decoded");
    static const char *const bad[] = {"", "BgAAAAAA/38", "BgAA", "BgAAAAAA/3*=", "=gAAAAAA/38="};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        pair.value = bad[i];
        is_int(seccomp_plan(&a, &spec, &context, &out, &err), -EINVAL, "'%s' is no program", bad[i]);
    }
    spec.annotations.count = 0;
    is_int(seccomp_plan(&a, &spec, &context, &out, &err), 0, "no profile, no filter");
    is_str(out.origin, "none", "… which is said");
    is_int(seccomp_install(&out, NULL, &err), 0, "… and nothing is loaded");
    arena_free(&a);
}

static void test_describe(void)
{
    const struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct seccomp_plan p = {
        .filter = &allow, .count = 1, .flags = SECCOMP_FILTER_FLAG_LOG, .origin = "cache"};
    cleanup_json_out struct json_out *out = json_out_new(false);
    seccomp_describe(&p, out);
    is_str(json_out_text(out, NULL),
           "{\"origin\":\"cache\",\"instructions\":1,\"flags\":[\"SECCOMP_FILTER_FLAG_LOG\"],"
           "\"notify\":false}",
           "a plan is described by origin, size and flags");
    ok(seccomp_flag_supported(SECCOMP_FILTER_FLAG_LOG), "the kernel has SECCOMP_FILTER_FLAG_LOG");
    ok(!seccomp_flag_supported(1U << 30), "… and no flag 30");
}

int main(void)
{
    test_actions();
    test_arguments();
    test_unknown_names();
    test_enosys();
    test_optimizer();
    test_cache();
    test_annotation();
    test_describe();
    return done_testing();
}
