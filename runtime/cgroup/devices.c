/* Device rules: compiled to eBPF, loaded and attached with bpf(2) directly. See bpf-helpers(7),
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

/* By this name the programs of this runtime are told from others on the same cgroup. */
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
    /* A node can be made without being usable: images are unpacked in containers. */
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
    DEFAULT_DEVICE(10, 200),         /* net/tun: as every runtime has come to allow */
};
#define DEFAULT_RULES (sizeof(default_rules) / sizeof(default_rules[0]))

static int decode_number(const struct opt_i64 *number, const char *name, size_t index, int64_t *out,
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
        return error_set(err, -EINVAL, "linux.resources.devices[%zu].type: '%s' is none of a, b, c", index,
                         from->type);
    int ret = decode_number(&from->major, "major", index, &rule->major, err);
    if (ret == 0)
        ret = decode_number(&from->minor, "minor", index, &rule->minor, err);
    if (ret < 0)
        return ret;
    if (from->access == NULL || from->access[0] == '\0')
        rule->access = ACCESS_ALL;
    for (const char *p = from->access; p != NULL && *p != '\0'; p++) {
        if (strchr("rwm", *p) == NULL)
            return error_set(err, -EINVAL, "linux.resources.devices[%zu].access: '%s' is not of r, w, m",
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

/* Registers of the program. */
enum {
    RESULT = BPF_REG_0,
    CONTEXT = BPF_REG_1,
    TYPE = BPF_REG_2,
    UNDECIDED = BPF_REG_3, /* the requested accesses on which no rule has decided yet */
    MAJOR = BPF_REG_4,
    MINOR = BPF_REG_5,
};

struct assembler {
    struct bpf_insn *insns;
    size_t count;
};

/* Most that emit_rule and the frame around the rules need. */
#define INSNS_A_RULE 8
#define INSNS_FRAME  8

static void emit(struct assembler *a, unsigned code, unsigned dst, unsigned src, size_t offset, int32_t value)
{
    a->insns[a->count++] = (struct bpf_insn){
        .code = (__u8)code, .dst_reg = dst & 15, .src_reg = src & 15, .off = (__s16)offset, .imm = value};
}

static void emit_verdict(struct assembler *a, bool allow)
{
    emit(a, BPF_ALU64 | BPF_MOV | BPF_K, RESULT, 0, 0, allow);
    emit(a, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static void emit_load(struct assembler *a, unsigned reg, size_t field)
{
    emit(a, BPF_LDX | BPF_MEM | BPF_W, reg, CONTEXT, field, 0);
}

static void emit_prologue(struct assembler *a)
{
    emit_load(a, TYPE, offsetof(struct bpf_cgroup_dev_ctx, access_type));
    emit(a, BPF_ALU | BPF_MOV | BPF_X, UNDECIDED, TYPE, 0, 0);
    emit(a, BPF_ALU | BPF_AND | BPF_K, TYPE, 0, 0, 0xffff);
    emit(a, BPF_ALU | BPF_RSH | BPF_K, UNDECIDED, 0, 0, 16);
    emit_load(a, MAJOR, offsetof(struct bpf_cgroup_dev_ctx, major));
    emit_load(a, MINOR, offsetof(struct bpf_cgroup_dev_ctx, minor));
}

/* A rule decides on the accesses it names and leaves the others to the rules before it: a request to read and
 * write is allowed when one rule allows the one and one the other, and refused when either is refused. */
static void emit_rule(struct assembler *a, const struct rule *r)
{
    size_t verdict = r->access == ACCESS_ALL ? 2 : 4;
    const struct {
        bool wanted;
        unsigned reg;
        int32_t value;
    } matches[] = {
        {r->type != ANY_TYPE, TYPE, r->type},
        {r->major != ANY_NUMBER, MAJOR, (int32_t)(uint32_t)r->major},
        {r->minor != ANY_NUMBER, MINOR, (int32_t)(uint32_t)r->minor},
    };
    size_t rest = 0;
    for (size_t i = 0; i < 3; i++)
        rest += matches[i].wanted;
    for (size_t i = 0; i < 3; i++)
        if (matches[i].wanted)
            emit(a, BPF_JMP32 | BPF_JNE | BPF_K, matches[i].reg, 0, --rest + verdict, matches[i].value);
    if (r->access != ACCESS_ALL && r->allow) {
        emit(a, BPF_ALU | BPF_AND | BPF_K, UNDECIDED, 0, 0, ACCESS_ALL & ~r->access);
        emit(a, BPF_JMP | BPF_JNE | BPF_K, UNDECIDED, 0, 2, 0);
    } else if (r->access != ACCESS_ALL) {
        emit(a, BPF_JMP | BPF_JSET | BPF_K, UNDECIDED, 0, 1, r->access);
        emit(a, BPF_JMP | BPF_JA, 0, 0, 2, 0);
    }
    emit_verdict(a, r->allow);
}

int cgroup_devices_compile(struct arena *a, const struct spec_resources *resources,
                           const struct cgroup_device_program **program, struct error *err)
{
    *program = NULL;
    size_t count = resources != NULL ? resources->devices.count : 0;
    struct rule *rules = ARENA_ARRAY(a, count, struct rule);
    size_t first = 0; /* after the last rule for all devices, which makes what is before it void */
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
    emit_prologue(&as);
    for (size_t i = count; i > first; i--)
        emit_rule(&as, &rules[i - 1]);
    bool rest_allowed = first > 0 && rules[first - 1].allow;
    for (size_t i = DEFAULT_RULES; !rest_allowed && i > 0; i--)
        emit_rule(&as, &default_rules[i - 1]);
    emit_verdict(&as, rest_allowed);
    struct cgroup_device_program *out = ARENA_NEW(a, struct cgroup_device_program);
    *out = (struct cgroup_device_program){.insns = as.insns, .count = as.count};
    *program = out;
    return 0;
}

static int sys_bpf(unsigned command, union bpf_attr *attr)
{
    int ret = RETRY((int)syscall(SYS_bpf, command, attr, sizeof(*attr)));
    return ret < 0 ? -errno : ret;
}

static int load_program(const struct cgroup_device_program *program)
{
    /* The program calls no helper, so that the kernel does not care for the licence. RLIMIT_MEMLOCK is left
     * alone: since Linux 5.11 BPF memory is charged to the cgroup, and raising it may be refused. */
    union bpf_attr attr = {
        .prog_type = BPF_PROG_TYPE_CGROUP_DEVICE,
        .insn_cnt = (__u32)program->count,
        .insns = (uintptr_t)program->insns,
        .license = (uintptr_t) "Apache-2.0",
        .prog_name = PROGRAM_NAME,
    };
    return sys_bpf(BPF_PROG_LOAD, &attr);
}

/* Descriptor of the program when it is one of ours, -ENOENT when it is not. */
static int open_own_program(uint32_t id)
{
    union bpf_attr get = {.prog_id = id};
    cleanup_fd int fd = sys_bpf(BPF_PROG_GET_FD_BY_ID, &get);
    if (fd < 0)
        return fd;
    struct bpf_prog_info info = {0};
    union bpf_attr query = {
        .info = {.bpf_fd = (__u32)fd, .info_len = sizeof(info), .info = (uintptr_t)&info},
    };
    int ret = sys_bpf(BPF_OBJ_GET_INFO_BY_FD, &query);
    if (ret < 0)
        return ret;
    return strncmp(info.name, PROGRAM_NAME, sizeof(info.name)) == 0 ? fd_steal(&fd) : -ENOENT;
}

static int attach_program(int dirfd, int program, int replaced)
{
    union bpf_attr attr = {
        .target_fd = (__u32)dirfd,
        .attach_bpf_fd = (__u32)program,
        .attach_type = BPF_CGROUP_DEVICE,
        .attach_flags = BPF_F_ALLOW_MULTI | (replaced >= 0 ? BPF_F_REPLACE : 0),
        .replace_bpf_fd = replaced >= 0 ? (__u32)replaced : 0,
    };
    return sys_bpf(BPF_PROG_ATTACH, &attr);
}

static int detach_program(int dirfd, int program)
{
    union bpf_attr attr = {
        .target_fd = (__u32)dirfd,
        .attach_bpf_fd = (__u32)program,
        .attach_type = BPF_CGROUP_DEVICE,
    };
    return sys_bpf(BPF_PROG_DETACH, &attr);
}

/* Attach the new program in the place of our first old one and take the others away. The new one is in force
 * before an old one goes: there is no moment without rules. */
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
    return fd < 0 ? error_set(err, fd, "load the device program of linux.resources.devices") : fd;
}

int cgroup_devices_attach(int program, int dirfd, struct error *err)
{
    uint32_t ids[64] = {0}; /* the kernel allows no more on one cgroup */
    union bpf_attr attr = {
        .query = {.target_fd = (__u32)dirfd,
                  .attach_type = BPF_CGROUP_DEVICE,
                  .prog_ids = (uintptr_t)ids,
                  .prog_cnt = sizeof(ids) / sizeof(ids[0])},
    };
    int ret = sys_bpf(BPF_PROG_QUERY, &attr);
    if (ret < 0)
        return error_set(err, ret, "query the device programs of the cgroup");
    ret = exchange_programs(dirfd, program, ids, attr.query.prog_cnt);
    return ret < 0 ? error_set(err, ret, "attach the device program of linux.resources.devices") : 0;
}
