/* Compile a profile to a program. Only this file uses libseccomp. dlopen(3) opens it, so a run that finds its
 * program in the cache does not load it. In a wheel it is linked in. seccomp_rule_add(3). */
#include "sandbox/seccomp/compile.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/libraries.h"
#include "base/log.h"
#include "base/str.h"
#include "sandbox/names.h"
#include "sandbox/seccomp/optimize.h"
#include "sandbox/seccomp/stub.h"
#include "spec/spec.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

/* Architectures that libseccomp 2.5 does not know, by their AUDIT_ARCH_…. */
#ifndef SCMP_ARCH_LOONGARCH64
#define SCMP_ARCH_LOONGARCH64 0xc0000102U
#endif
#ifndef SCMP_ARCH_M68K
#define SCMP_ARCH_M68K 0x00000004U
#endif
#ifndef SCMP_ARCH_SH
#define SCMP_ARCH_SH 0x4000002aU
#endif
#ifndef SCMP_ARCH_SHEB
#define SCMP_ARCH_SHEB 0x0000002aU
#endif

#define LIBRARY "libseccomp.so.2"

/* The values of libseccomp, without the errno or message that some of them carry. */
const struct name_value seccomp_actions[] = {
    {"SCMP_ACT_KILL", SCMP_ACT_KILL_THREAD},
    {"SCMP_ACT_KILL_PROCESS", SCMP_ACT_KILL_PROCESS},
    {"SCMP_ACT_KILL_THREAD", SCMP_ACT_KILL_THREAD},
    {"SCMP_ACT_TRAP", SCMP_ACT_TRAP},
    {"SCMP_ACT_ERRNO", SCMP_ACT_ERRNO(0)},
    {"SCMP_ACT_TRACE", SCMP_ACT_TRACE(0)},
    {"SCMP_ACT_ALLOW", SCMP_ACT_ALLOW},
    {"SCMP_ACT_LOG", SCMP_ACT_LOG},
    {"SCMP_ACT_NOTIFY", SCMP_ACT_NOTIFY},
    {NULL, 0},
};

const struct name_value seccomp_operators[] = {
    {"SCMP_CMP_NE", SCMP_CMP_NE},
    {"SCMP_CMP_LT", SCMP_CMP_LT},
    {"SCMP_CMP_LE", SCMP_CMP_LE},
    {"SCMP_CMP_EQ", SCMP_CMP_EQ},
    {"SCMP_CMP_GE", SCMP_CMP_GE},
    {"SCMP_CMP_GT", SCMP_CMP_GT},
    {"SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ},
    {NULL, 0},
};

const struct name_value seccomp_architectures[] = {
    {"SCMP_ARCH_X86", SCMP_ARCH_X86},
    {"SCMP_ARCH_X86_64", SCMP_ARCH_X86_64},
    {"SCMP_ARCH_X32", SCMP_ARCH_X32},
    {"SCMP_ARCH_ARM", SCMP_ARCH_ARM},
    {"SCMP_ARCH_AARCH64", SCMP_ARCH_AARCH64},
    {"SCMP_ARCH_MIPS", SCMP_ARCH_MIPS},
    {"SCMP_ARCH_MIPS64", SCMP_ARCH_MIPS64},
    {"SCMP_ARCH_MIPS64N32", SCMP_ARCH_MIPS64N32},
    {"SCMP_ARCH_MIPSEL", SCMP_ARCH_MIPSEL},
    {"SCMP_ARCH_MIPSEL64", SCMP_ARCH_MIPSEL64},
    {"SCMP_ARCH_MIPSEL64N32", SCMP_ARCH_MIPSEL64N32},
    {"SCMP_ARCH_PPC", SCMP_ARCH_PPC},
    {"SCMP_ARCH_PPC64", SCMP_ARCH_PPC64},
    {"SCMP_ARCH_PPC64LE", SCMP_ARCH_PPC64LE},
    {"SCMP_ARCH_S390", SCMP_ARCH_S390},
    {"SCMP_ARCH_S390X", SCMP_ARCH_S390X},
    {"SCMP_ARCH_PARISC", SCMP_ARCH_PARISC},
    {"SCMP_ARCH_PARISC64", SCMP_ARCH_PARISC64},
    {"SCMP_ARCH_RISCV64", SCMP_ARCH_RISCV64},
    {"SCMP_ARCH_LOONGARCH64", SCMP_ARCH_LOONGARCH64},
    {"SCMP_ARCH_M68K", SCMP_ARCH_M68K},
    {"SCMP_ARCH_SH", SCMP_ARCH_SH},
    {"SCMP_ARCH_SHEB", SCMP_ARCH_SHEB},
    {NULL, 0},
};

const struct name_value seccomp_flags[] = {
    {"SECCOMP_FILTER_FLAG_TSYNC", SECCOMP_FILTER_FLAG_TSYNC},
    {"SECCOMP_FILTER_FLAG_LOG", SECCOMP_FILTER_FLAG_LOG},
    {"SECCOMP_FILTER_FLAG_SPEC_ALLOW", SECCOMP_FILTER_FLAG_SPEC_ALLOW},
    {"SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV", SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV},
    {NULL, 0},
};

bool seccomp_flag_supported(unsigned flag)
{
    if (flag == SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
        flag |= SECCOMP_FILTER_FLAG_NEW_LISTENER; /* only valid together */
    /* The kernel checks flags before the program: with a known flag, the call fails on the bad address. */
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flag, NULL) < 0 && errno == EFAULT;
}

/* The functions of libseccomp that this file calls. */
#define FUNCTIONS(F)                                                                                         \
    F(init)                                                                                                  \
    F(release)                                                                                               \
    F(arch_native)                                                                                           \
    F(arch_add)                                                                                              \
    F(attr_set)                                                                                              \
    F(syscall_resolve_name)                                                                                  \
    F(syscall_resolve_name_arch)                                                                             \
    F(rule_add_array)                                                                                        \
    F(export_bpf)

/* The types come from the header, so that the compiler checks the calls. */
#define POINTER(name) __typeof__(seccomp_##name) *name;
static struct {
    FUNCTIONS(POINTER)
} lib;

#if defined(LINKED_SECCOMP) && !defined(STATIC_PROGRAM)

/* Load libseccomp. A wheel cannot rely on libraries of the host, so its dynamic program contains libseccomp.
 * In that case *path is the program itself, and a cache entry is valid as long as that file does not change.
 */
static int seccomp_load_library(struct arena *a, const char **path, struct error *err)
{
    char own[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", own, sizeof(own));
    if (n <= 0 || n == sizeof(own))
        return error_set(err, n < 0 ? -errno : -ENAMETOOLONG, "read '/proc/self/exe'");
    *path = arena_printf(a, "%.*s", (int)n, own);
#define TAKE(name) lib.name = seccomp_##name;
    FUNCTIONS(TAKE)
    return 0;
}

#else

static int seccomp_load_library(struct arena *a, const char **path, struct error *err)
{
    int ret = libraries_require(err);
    if (ret < 0)
        return ret;
    /* The library is never closed: it stays for the life of the process. */
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return error_text(err, -ENOTSUP,
                          "linux.seccomp: the profile must be compiled, but '%s' cannot be loaded: %s: "
                          "install libseccomp 2.5 or later",
                          LIBRARY, dlerror());
#define SLOT(name) {"seccomp_" #name, &lib.name},
    const struct {
        const char *name;
        void *slot;
    } symbols[] = {FUNCTIONS(SLOT)};
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (address == NULL)
            return error_text(err, -ENOTSUP, "linux.seccomp: '%s' has no '%s'", LIBRARY, symbols[i].name);
        memcpy(symbols[i].slot, &address, sizeof(address));
    }
    struct link_map *map = NULL;
    bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] == '/';
    *path = known ? arena_strdup(a, map->l_name) : "";
    return 0;
}

#endif

static void release_context(scmp_filter_ctx *ctx)
{
    if (*ctx != NULL)
        lib.release(*ctx);
}

/* libseccomp takes less than MAX_ERRNO of the kernel. A tracer gets all 16 bits. */
#define ERRNO_RET_MAX 4094

/* Translate an action with its errno or trace message to libseccomp's form. */
static int decode_action(const char *name, struct opt_i64 value, uint32_t *out, const char *action_key,
                         const char *value_key, struct error *err)
{
    const struct name_value *action = names_find(seccomp_actions, name);
    if (action == NULL)
        return error_set(err, -EINVAL, "%s: unknown action '%s'", action_key, name);
    *out = (uint32_t)action->value;
    if (*out != SCMP_ACT_ERRNO(0) && *out != SCMP_ACT_TRACE(0)) {
        if (value.set)
            return error_set(err, -EINVAL, "%s: '%s' takes no errno", action_key, name);
        return 0;
    }
    int64_t data = value.set ? value.value : EPERM;
    int highest = *out == SCMP_ACT_TRACE(0) ? UINT16_MAX : ERRNO_RET_MAX;
    if (data < 0 || data > highest)
        return error_set(err, -EINVAL, "%s: %" PRId64 " is out of range (0 to %d)", value_key, data, highest);
    *out |= (uint32_t)data;
    return 0;
}

static int decode_flags(const struct str_list *list, unsigned *out, struct error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct name_value *flag = names_find(seccomp_flags, list->items[i]);
        if (flag == NULL)
            return error_set(err, -EINVAL, "linux.seccomp.flags[%zu]: unknown flag '%s'", i, list->items[i]);
        *out |= (unsigned)flag->value;
    }
    return 0;
}

/* Every new context contains the native architecture. */
static int add_architectures(scmp_filter_ctx ctx, const struct str_list *list, struct error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct name_value *arch = names_find(seccomp_architectures, list->items[i]);
        if (arch == NULL)
            return error_set(err, -EINVAL, "linux.seccomp.architectures[%zu]: unknown architecture '%s'", i,
                             list->items[i]);
        int ret = lib.arch_add(ctx, (uint32_t)arch->value);
        if (ret < 0 && ret != -EEXIST)
            return error_text(err, -EINVAL,
                              "linux.seccomp.architectures[%zu]: '%s' cannot be combined with the native "
                              "architecture: %s",
                              i, list->items[i], error_reason(ret));
    }
    return 0;
}

static int decode_args(struct arena *a, const struct spec_seccomp_rule *rule, size_t index,
                       struct scmp_arg_cmp **out, struct error *err)
{
    struct scmp_arg_cmp *args = ARENA_ARRAY(a, rule->args.count, struct scmp_arg_cmp);
    for (size_t i = 0; i < rule->args.count; i++) {
        const struct spec_seccomp_arg *from = &rule->args.items[i];
        const struct name_value *op = names_find(seccomp_operators, from->op);
        if (op == NULL)
            return error_set(err, -EINVAL, "linux.seccomp.syscalls[%zu].args[%zu].op: unknown operator '%s'",
                             index, i, from->op);
        if (from->index > 5)
            return error_set(err, -EINVAL, "linux.seccomp.syscalls[%zu].args[%zu].index: %llu is above 5",
                             index, i, (unsigned long long)from->index);
        /* With SCMP_CMP_MASKED_EQ, value is the mask, and valueTwo is compared with the masked argument. */
        args[i] = (struct scmp_arg_cmp){(unsigned)from->index, (enum scmp_compare)op->value, from->value,
                                        from->value_two};
    }
    *out = args;
    return 0;
}

/* True if two conditions concern the same argument. libseccomp accepts one for each. runc made several
 * conditions alternatives, with a rule for each, and profiles rely on it. */
static bool argument_twice(const struct scmp_arg_cmp *args, size_t count)
{
    unsigned seen = 0;
    for (size_t i = 0; i < count; i++) {
        if (seen & 1U << args[i].arg)
            return true;
        seen |= 1U << args[i].arg;
    }
    return false;
}

static int add_syscall(scmp_filter_ctx ctx, uint32_t action, int number, const struct scmp_arg_cmp *args,
                       size_t count)
{
    if (!argument_twice(args, count))
        return lib.rule_add_array(ctx, action, number, (unsigned)count, args);
    for (size_t i = 0; i < count; i++) {
        int ret = lib.rule_add_array(ctx, action, number, 1, &args[i]);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int add_rule(struct arena *a, scmp_filter_ctx ctx, const struct spec_seccomp_rule *rule, size_t index,
                    uint32_t default_action, bool fail_unknown, struct error *err)
{
    uint32_t action;
    struct scmp_arg_cmp *args = NULL;
    int ret = decode_action(rule->action, rule->errno_ret, &action,
                            arena_printf(a, "linux.seccomp.syscalls[%zu].action", index),
                            arena_printf(a, "linux.seccomp.syscalls[%zu].errnoRet", index), err);
    if (ret < 0)
        return ret;
    ret = decode_args(a, rule, index, &args, err);
    if (ret < 0)
        return ret;
    for (size_t i = 0; i < rule->names.count; i++) {
        const char *name = rule->names.items[i];
        int number = lib.syscall_resolve_name(name);
        if (number == __NR_SCMP_ERROR) {
            if (fail_unknown)
                return error_set(err, -EINVAL,
                                 "linux.seccomp.syscalls[%zu].names[%zu]: unknown system call '%s'", index, i,
                                 name);
            log_debug("linux.seccomp.syscalls[%zu]: unknown system call '%s' is skipped", index, name);
            continue;
        }
        /* libseccomp refuses a rule that changes nothing. */
        if (action == default_action)
            continue;
        ret = add_syscall(ctx, action, number, args, rule->args.count);
        if (ret < 0)
            return error_set(err, ret,
                             "linux.seccomp.syscalls[%zu].names[%zu]: libseccomp refuses the rule for '%s'",
                             index, i, name);
    }
    return 0;
}

/* Return the highest number that the profile names on an architecture, or -1. */
static int highest_number(const struct spec_seccomp *profile, uint32_t arch)
{
    int highest = -1;
    for (size_t i = 0; i < profile->syscalls.count; i++) {
        const struct str_list *names = &profile->syscalls.items[i].names;
        for (size_t j = 0; j < names->count; j++) {
            int number = lib.syscall_resolve_name_arch(arch, names->items[j]);
            if (number > highest)
                highest = number;
        }
    }
    return highest;
}

/* Make the stub for system calls newer than the profile. A profile that answers EPERM to unlisted calls also
 * answers it to calls that did not exist when it was written. C libraries accept EPERM as the result, but
 * after ENOSYS they use the older call (clone3, faccessat2). So numbers above the highest in the profile get
 * ENOSYS, as in runc. The actions KILL, TRAP and LOG get no stub, because their purpose is to see every call.
 */
static size_t make_stub(const struct spec_seccomp *profile, uint32_t default_action,
                        struct sock_filter stub[SECCOMP_STUB_MAX])
{
    if ((default_action & 0xffff0000U) != SCMP_ACT_ERRNO(0) || default_action == SCMP_ACT_ERRNO(ENOSYS))
        return 0;
    struct seccomp_stub_limit limits[SECCOMP_STUB_ARCHS];
    size_t count = 0;
    uint32_t native = lib.arch_native();
    limits[count++] = (struct seccomp_stub_limit){native, highest_number(profile, native)};
    for (size_t i = 0; i < profile->architectures.count && count < SECCOMP_STUB_ARCHS; i++) {
        uint32_t arch = (uint32_t)names_find(seccomp_architectures, profile->architectures.items[i])->value;
        /* x32 has the audit number of x86_64 and its own range of numbers. The stub passes them on. */
        if (arch != native && arch != SCMP_ARCH_X32)
            limits[count++] = (struct seccomp_stub_limit){arch, highest_number(profile, arch)};
    }
    return seccomp_stub(limits, count, stub);
}

static bool has_arch(const uint32_t *archs, size_t count, uint32_t arch)
{
    for (size_t i = 0; i < count; i++)
        if (archs[i] == arch)
            return true;
    return false;
}

/* Export the program from libseccomp, and put the stub before it. */
static int export_program(struct arena *a, scmp_filter_ctx ctx, const struct sock_filter *stub,
                          size_t stub_count, struct seccomp_program *out, struct error *err)
{
    cleanup_fd int fd = memfd_create("seccomp", MFD_CLOEXEC);
    if (fd < 0)
        return error_set(err, -errno, "create a memfd for the seccomp program");
    int ret = lib.export_bpf(ctx, fd);
    if (ret < 0)
        return error_set(err, ret, "linux.seccomp: compile the profile");
    off_t size = lseek(fd, 0, SEEK_CUR);
    if (size <= 0 || (size_t)size % sizeof(struct sock_filter) != 0 || lseek(fd, 0, SEEK_SET) < 0)
        return error_set(err, -EIO, "linux.seccomp: get the size of the compiled program");
    size_t count = (size_t)size / sizeof(struct sock_filter) + stub_count;
    struct sock_filter *filter = ARENA_ARRAY(a, count, struct sock_filter);
    memcpy(filter, stub, stub_count * sizeof(*filter));
    if (io_read_full(fd, filter + stub_count, (size_t)size) != size)
        return error_set(err, -EIO, "linux.seccomp: read the compiled program");
    out->filter = filter;
    out->count = count;
    return 0;
}

static int finish_program(struct arena *a, const struct spec_seccomp *profile, struct seccomp_program *out,
                          struct error *err)
{
    size_t count = 0;
    uint32_t *archs = ARENA_ARRAY(a, profile->architectures.count + 1, uint32_t);
    archs[count++] = lib.arch_native();
    for (size_t i = 0; i < profile->architectures.count; i++) {
        uint32_t arch = (uint32_t)names_find(seccomp_architectures, profile->architectures.items[i])->value;
        /* To the kernel x32 is x86_64. */
        arch = arch == SCMP_ARCH_X32 ? SCMP_ARCH_X86_64 : arch;
        if (!has_arch(archs, count, arch))
            archs[count++] = arch;
    }
    seccomp_optimize(a, archs, count, &out->filter, &out->count);
    if (out->count > BPF_MAXINSNS)
        return error_set(err, -EINVAL,
                         "linux.seccomp: the program has %zu instructions, but the kernel takes at most %d",
                         out->count, BPF_MAXINSNS);
    return 0;
}

int seccomp_compile(struct arena *a, const struct spec_seccomp *profile, bool fail_unknown,
                    struct seccomp_program *out, struct error *err)
{
    *out = (struct seccomp_program){0};
    uint32_t default_action;
    int ret = decode_action(profile->default_action, profile->default_errno_ret, &default_action,
                            "linux.seccomp.defaultAction", "linux.seccomp.defaultErrnoRet", err);
    if (ret < 0)
        return ret;
    ret = decode_flags(&profile->flags, &out->flags, err);
    if (ret < 0)
        return ret;
    ret = seccomp_load_library(a, &out->library, err);
    if (ret < 0)
        return ret;
    __attribute__((cleanup(release_context))) scmp_filter_ctx ctx = lib.init(default_action);
    if (ctx == NULL)
        return error_set(err, -EINVAL, "linux.seccomp.defaultAction: '%s' cannot be the default",
                         profile->default_action);
    ret = add_architectures(ctx, &profile->architectures, err);
    if (ret < 0)
        return ret;
    /* The runtime sets no_new_privs itself if it is asked for. A call of a foreign architecture kills the
     * process instead of one thread. seccomp_optimize orders the comparisons and makes a smaller program than
     * SCMP_FLTATR_CTL_OPTIMIZE. */
    lib.attr_set(ctx, SCMP_FLTATR_CTL_NNP, 0);
    lib.attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    for (size_t i = 0; i < profile->syscalls.count; i++) {
        ret = add_rule(a, ctx, &profile->syscalls.items[i], i, default_action, fail_unknown, err);
        if (ret < 0)
            return ret;
    }
    struct sock_filter stub[SECCOMP_STUB_MAX];
    ret = export_program(a, ctx, stub, make_stub(profile, default_action, stub), out, err);
    return ret < 0 ? ret : finish_program(a, profile, out, err);
}
