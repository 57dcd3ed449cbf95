/* Device rules: compiled to eBPF, loaded and attached directly with bpf(2). See bpf-helpers(7),
 * include/uapi/linux/bpf.h and the section "Device controller" of admin-guide/cgroup-v2.rst. */
#include "cgroup/devices.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "spec/spec.h"

/* Programs of this runtime are recognized by this name among others of the same cgroup. */
#define PROGRAM_NAME "pysbx_devices"

#define ACCESS_ALL (BPF_DEVCG_ACC_MKNOD | BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE)
#define ANY_NUMBER (-1)
#define ANY_TYPE   0

struct rule {
    bool allow;
    int32_t type; /* BPF_DEVCG_DEV_* or ANY_TYPE */
    int64_t major, minor;
    int32_t access; /* BPF_DEVCG_ACC_* */
};

#define DEFAULT_DEVICE(major_, minor_)                                                                       \
    {                                                                                                        \
        .allow = true, .type = BPF_DEVCG_DEV_CHAR, .major = major_, .minor = minor_, .access = ACCESS_ALL    \
    }

static const struct rule default_rules[] = {
    /* Creating a node does not permit its use, and unpacking an image in a container needs it. */
    {true, BPF_DEVCG_DEV_CHAR, ANY_NUMBER, ANY_NUMBER, BPF_DEVCG_ACC_MKNOD},
    {true, BPF_DEVCG_DEV_BLOCK, ANY_NUMBER, ANY_NUMBER, BPF_DEVCG_ACC_MKNOD},
    DEFAULT_DEVICE(1, 3),            /* null */
    DEFAULT_DEVICE(1, 5),            /* zero */
    DEFAULT_DEVICE(1, 7),            /* full */
    DEFAULT_DEVICE(1, 8),            /* random */
    DEFAULT_DEVICE(1, 9),            /* urandom */
    DEFAULT_DEVICE(5, 0),            /* tty */
    DEFAULT_DEVICE(5, 1),            /* console */
    DEFAULT_DEVICE(5, 2),            /* ptmx */
    DEFAULT_DEVICE(136, ANY_NUMBER), /* pts */
    DEFAULT_DEVICE(10, 200),         /* net/tun: other runtimes allow it too */
};
#define DEFAULT_RULES (sizeof(default_rules) / sizeof(default_rules[0]))

static int devices_decode_number(const struct opt_i64 *number, const char *name, size_t index, int64_t *out,
                                 struct error *err)
{
    *out = number->set ? number->value : ANY_NUMBER;
    if (*out < ANY_NUMBER || *out > UINT32_MAX)
        return error_set(err, -EINVAL, "linux.resources.devices[%zu].%s: %" PRIi64 " is not a device number",
                         index, name, *out);
    return 0;
}

static int decode_rule(const struct spec_device_rule *from, size_t index, struct rule *rule,
                       struct error *err)
{
    *rule = (struct rule){.allow = from->allow};
    if (from->type == NULL || strcmp(from->type, "a") == 0)
        rule->type = ANY_TYPE;
    else if (strcmp(from->type, "b") == 0)
        rule->type = BPF_DEVCG_DEV_BLOCK;
    else if (strcmp(from->type, "c") == 0 || strcmp(from->type, "u") == 0)
        rule->type = BPF_DEVCG_DEV_CHAR;
    else
        return error_set(err, -EINVAL,
                         "linux.resources.devices[%zu].type: unknown type '%s': expected a, b or c", index,
                         from->type);
    int ret = devices_decode_number(&from->major, "major", index, &rule->major, err);
    if (ret < 0)
        return ret;
    ret = devices_decode_number(&from->minor, "minor", index, &rule->minor, err);
    if (ret < 0)
        return ret;
    if (from->access == NULL || from->access[0] == '\0')
        rule->access = ACCESS_ALL;
    for (const char *p = from->access; p != NULL && *p != '\0'; p++) {
        if (strchr("rwm", *p) == NULL)
            return error_set(err, -EINVAL,
                             "linux.resources.devices[%zu].access: '%s' has letters other than r, w and m",
                             index, from->access);
        rule->access |= *p == 'r'   ? BPF_DEVCG_ACC_READ
                        : *p == 'w' ? BPF_DEVCG_ACC_WRITE
                                    : BPF_DEVCG_ACC_MKNOD;
    }
    return 0;
}

static bool is_for_all(const struct rule *r)
{
    return r->type == ANY_TYPE && r->major == ANY_NUMBER && r->minor == ANY_NUMBER && r->access == ACCESS_ALL;
}

/* Registers of the filter. */
enum {
    ALLOWED = BPF_REG_0, /* accesses that the rules so far allow; at the end, the result */
    CONTEXT = BPF_REG_1,
    VALUE = BPF_REG_2,
    REQUESTED = BPF_REG_3, /* accesses */
    DEVICE = BPF_REG_4,    /* type, major and minor number in one word */
    MATCH = BPF_REG_5,
};

/* Layout of DEVICE. Numbers have this many bits in the kernel (include/linux/kdev_t.h). */
#define MINOR_BITS 20
#define MAJOR_BITS 12
#define TYPE_SHIFT (MINOR_BITS + MAJOR_BITS)
#define TYPE_MASK  (UINT64_C(0xffff) << TYPE_SHIFT)
#define MAJOR_MASK (((UINT64_C(1) << MAJOR_BITS) - 1) << MINOR_BITS)
#define MINOR_MASK ((UINT64_C(1) << MINOR_BITS) - 1)
#define ALL_MASK   (TYPE_MASK | MAJOR_MASK | MINOR_MASK)

struct assembler {
    struct bpf_insn *insns;
    size_t count;
};

/* Maximum for emit_rule, and for the instructions around the rules. */
#define INSNS_A_RULE 12
#define INSNS_FRAME  18

static void devices_emit(struct assembler *a, unsigned code, unsigned dst, unsigned src, size_t offset,
                         int32_t value)
{
    a->insns[a->count++] = (struct bpf_insn){
        .code = (__u8)code, .dst_reg = dst & 15, .src_reg = src & 15, .off = (__s16)offset, .imm = value};
}

/* dst = dst OPERATION value, or register src; 64 bits. */
static void emit_value(struct assembler *a, unsigned operation, unsigned dst, int32_t value)
{
    devices_emit(a, BPF_ALU64 | operation | BPF_K, dst, 0, 0, value);
}

static void emit_register(struct assembler *a, unsigned operation, unsigned dst, unsigned src)
{
    devices_emit(a, BPF_ALU64 | operation | BPF_X, dst, src, 0, 0);
}

static void emit_load(struct assembler *a, unsigned reg, size_t field)
{
    devices_emit(a, BPF_LDX | BPF_MEM | BPF_W, reg, CONTEXT, field, 0);
}

/* dst = dst OPERATION value of 64 bits. */
static void emit_word(struct assembler *a, unsigned operation, unsigned dst, uint64_t value)
{
    devices_emit(a, BPF_LD | BPF_IMM | BPF_DW, VALUE, 0, 0, (int32_t)(uint32_t)value);
    devices_emit(a, 0, 0, 0, 0, (int32_t)(uint32_t)(value >> 32));
    emit_register(a, operation, dst, VALUE);
}

/* Replace 0 by 1 and other values by 0. Only for values below half of the range. */
static void emit_is_zero(struct assembler *a, unsigned reg)
{
    emit_value(a, BPF_ADD, reg, -1);
    emit_value(a, BPF_RSH, reg, 63);
}

static void emit_prologue(struct assembler *a, bool rest_allowed)
{
    emit_load(a, DEVICE, offsetof(struct bpf_cgroup_dev_ctx, access_type));
    emit_register(a, BPF_MOV, REQUESTED, DEVICE);
    emit_value(a, BPF_RSH, REQUESTED, 16);
    emit_value(a, BPF_AND, DEVICE, 0xffff);
    emit_value(a, BPF_LSH, DEVICE, TYPE_SHIFT);
    emit_load(a, VALUE, offsetof(struct bpf_cgroup_dev_ctx, major));
    emit_value(a, BPF_LSH, VALUE, MINOR_BITS);
    emit_register(a, BPF_OR, DEVICE, VALUE);
    emit_load(a, VALUE, offsetof(struct bpf_cgroup_dev_ctx, minor));
    emit_register(a, BPF_OR, DEVICE, VALUE);
    emit_value(a, BPF_MOV, ALLOWED, rest_allowed ? ACCESS_ALL : 0);
}

/* A rule decides about the accesses that it names, and leaves the others to earlier rules. So a request to
 * read and write is allowed if one rule allows reading and another writing, and refused if either access is
 * refused. There are no jumps, because the verifier would follow both branches of each. This takes a third of
 * the time. */
static void emit_rule(struct assembler *a, const struct rule *r)
{
    if (r->major > (int64_t)(MAJOR_MASK >> MINOR_BITS) || r->minor > (int64_t)MINOR_MASK)
        return; /* no device has such a number */
    const struct {
        bool wanted;
        uint64_t mask, value;
    } fields[] = {
        {r->type != ANY_TYPE, TYPE_MASK, (uint64_t)r->type << TYPE_SHIFT},
        {r->major != ANY_NUMBER, MAJOR_MASK, (uint64_t)r->major << MINOR_BITS},
        {r->minor != ANY_NUMBER, MINOR_MASK, (uint64_t)r->minor},
    };
    uint64_t mask = 0, value = 0;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        mask |= fields[i].wanted ? fields[i].mask : 0;
        value |= fields[i].wanted ? fields[i].value : 0;
    }
    emit_register(a, BPF_MOV, MATCH, DEVICE);
    if (mask != ALL_MASK)
        emit_word(a, BPF_AND, MATCH, mask);
    emit_word(a, BPF_XOR, MATCH, value);
    emit_is_zero(a, MATCH);
    emit_value(a, BPF_MUL, MATCH, r->access);
    if (!r->allow)
        emit_value(a, BPF_XOR, MATCH, ACCESS_ALL);
    emit_register(a, r->allow ? BPF_OR : BPF_AND, ALLOWED, MATCH);
}

/* Allow the request if none of its accesses is refused. */
static void emit_epilogue(struct assembler *a)
{
    emit_value(a, BPF_XOR, ALLOWED, ACCESS_ALL);
    emit_register(a, BPF_AND, ALLOWED, REQUESTED);
    emit_is_zero(a, ALLOWED);
    devices_emit(a, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

int cgroup_devices_compile(struct arena *a, const struct spec_resources *resources,
                           const struct cgroup_device_program **program, struct error *err)
{
    *program = NULL;
    size_t count = resources != NULL ? resources->devices.count : 0;
    struct rule *rules = ARENA_ARRAY(a, count, struct rule);
    size_t first = 0; /* after the last rule for all devices, which overrides all earlier rules */
    bool refuses = false;
    for (size_t i = 0; i < count; i++) {
        int ret = decode_rule(&resources->devices.items[i], i, &rules[i], err);
        if (ret < 0)
            return ret;
        if (is_for_all(&rules[i])) {
            first = i + 1;
            refuses = !rules[i].allow;
        } else if (!rules[i].allow) {
            refuses = true;
        }
    }
    if (!refuses)
        return 0;
    struct assembler as = {
        .insns = ARENA_ARRAY(a, (count + DEFAULT_RULES) * INSNS_A_RULE + INSNS_FRAME, struct bpf_insn),
    };
    bool rest_allowed = first > 0 && rules[first - 1].allow;
    emit_prologue(&as, rest_allowed);
    for (size_t i = 0; !rest_allowed && i < DEFAULT_RULES; i++)
        emit_rule(&as, &default_rules[i]);
    for (size_t i = first; i < count; i++)
        emit_rule(&as, &rules[i]);
    emit_epilogue(&as);
    struct cgroup_device_program *out = ARENA_NEW(a, struct cgroup_device_program);
    *out = (struct cgroup_device_program){.insns = as.insns, .count = as.count};
    *program = out;
    return 0;
}

/* The kernel requires zeroes after the members of a command. The initializer of a union does not guarantee
 * that: GCC 15 clears only the named member. */
static void clear(union bpf_attr *attr)
{
    memset(attr, 0, sizeof(*attr));
}

static int sys_bpf(unsigned command, union bpf_attr *attr)
{
    int ret = RETRY((int)syscall(SYS_bpf, command, attr, sizeof(*attr)));
    return ret < 0 ? -errno : ret;
}

static int load_program(const struct cgroup_device_program *program)
{
    /* The filter calls no helper, so the kernel does not check the licence. RLIMIT_MEMLOCK is not raised:
     * since Linux 5.11 BPF memory is charged to the cgroup, and raising it may be refused. */
    union bpf_attr attr;
    clear(&attr);
    attr.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
    attr.insn_cnt = (__u32)program->count;
    attr.insns = (uintptr_t)program->insns;
    attr.license = (uintptr_t) "Apache-2.0";
    memcpy(attr.prog_name, PROGRAM_NAME, sizeof(PROGRAM_NAME));
    return sys_bpf(BPF_PROG_LOAD, &attr);
}

/* Return a descriptor of the program if it is one of this runtime, otherwise -ENOENT. */
static int open_own_program(uint32_t id)
{
    union bpf_attr attr;
    clear(&attr);
    attr.prog_id = id;
    cleanup_fd int fd = sys_bpf(BPF_PROG_GET_FD_BY_ID, &attr);
    if (fd < 0)
        return fd;
    struct bpf_prog_info info = {0};
    clear(&attr);
    attr.info.bpf_fd = (__u32)fd;
    attr.info.info_len = sizeof(info);
    attr.info.info = (uintptr_t)&info;
    int ret = sys_bpf(BPF_OBJ_GET_INFO_BY_FD, &attr);
    if (ret < 0)
        return ret;
    return strncmp(info.name, PROGRAM_NAME, sizeof(info.name)) == 0 ? fd_steal(&fd) : -ENOENT;
}

static int attach_program(int dirfd, int program, int replaced)
{
    union bpf_attr attr;
    clear(&attr);
    attr.target_fd = (__u32)dirfd;
    attr.attach_bpf_fd = (__u32)program;
    attr.attach_type = BPF_CGROUP_DEVICE;
    attr.attach_flags = BPF_F_ALLOW_MULTI | (replaced >= 0 ? BPF_F_REPLACE : 0);
    attr.replace_bpf_fd = replaced >= 0 ? (__u32)replaced : 0;
    return sys_bpf(BPF_PROG_ATTACH, &attr);
}

static int detach_program(int dirfd, int program)
{
    union bpf_attr attr;
    clear(&attr);
    attr.target_fd = (__u32)dirfd;
    attr.attach_bpf_fd = (__u32)program;
    attr.attach_type = BPF_CGROUP_DEVICE;
    return sys_bpf(BPF_PROG_DETACH, &attr);
}

/* Replace the first program of this runtime by the new one, and detach the others. The new one is in force
 * before an old one is removed, so the cgroup is never without rules. */
static int exchange_programs(int dirfd, int program, const uint32_t *ids, size_t count)
{
    bool attached = program < 0;
    for (size_t i = 0; i < count; i++) {
        cleanup_fd int old = open_own_program(ids[i]);
        if (old == -ENOENT)
            continue;
        if (old < 0)
            return old;
        int ret = attached ? detach_program(dirfd, old) : attach_program(dirfd, program, old);
        if (ret < 0)
            return ret;
        attached = true;
    }
    return attached ? 0 : attach_program(dirfd, program, -1);
}

int cgroup_devices_load(const struct cgroup_device_program *program, struct error *err)
{
    int fd = load_program(program);
    return fd < 0 ? error_set(err, fd, "load the BPF device filter of linux.resources.devices") : fd;
}

int cgroup_devices_attach(int program, int dirfd, struct error *err)
{
    uint32_t ids[64] = {0}; /* the kernel's limit for one cgroup */
    union bpf_attr attr;
    clear(&attr);
    attr.query.target_fd = (__u32)dirfd;
    attr.query.attach_type = BPF_CGROUP_DEVICE;
    attr.query.prog_ids = (uintptr_t)ids;
    attr.query.prog_cnt = sizeof(ids) / sizeof(ids[0]);
    int ret = sys_bpf(BPF_PROG_QUERY, &attr);
    if (ret < 0)
        return error_set(err, ret, "query the BPF device filters of the cgroup");
    ret = exchange_programs(dirfd, program, ids, attr.query.prog_cnt);
    return ret < 0 ? error_set(err, ret, "attach the BPF device filter of linux.resources.devices") : 0;
}
