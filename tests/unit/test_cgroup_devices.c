/* Device rules: a small interpreter of the used instructions runs the compiled program on requests.
 * config-resources.bats tests that the kernel accepts and enforces it. */
#include "cgroup/devices.h"

#include "base/arena.h"
#include "base/error.h"
#include "spec/spec.h"
#include "unit.h"

static struct arena arena;

/* Compute dst OPERATION value in 64 bits; false for an operation that the program does not use. */
static bool calculate(unsigned operation, uint64_t *dst, uint64_t value)
{
    const struct {
        unsigned operation;
        uint64_t result;
    } rows[] = {
        {BPF_MOV, value},
        {BPF_OR, *dst | value},
        {BPF_AND, *dst & value},
        {BPF_XOR, *dst ^ value},
        {BPF_ADD, *dst + value},
        {BPF_MUL, *dst * value},
        {BPF_LSH, *dst << (value % 64)},
        {BPF_RSH, *dst >> (value % 64)},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].operation == operation) {
            *dst = rows[i].result;
            return true;
        }
    return false;
}

/* Return the kernel's result for a request: 1 allow, 0 refuse. The result is -1 for programs that the
 * verifier refuses: an unknown instruction, no end. */
static int run(const struct cgroup_device_program *p, const struct bpf_cgroup_dev_ctx *request)
{
    uint64_t reg[11] = {0};
    for (size_t pc = 0; pc < p->count; pc++) {
        const struct bpf_insn *i = &p->insns[pc];
        uint64_t *dst = &reg[i->dst_reg];
        if (i->code == (BPF_JMP | BPF_EXIT))
            return (int)reg[0];
        if (i->code == (BPF_LDX | BPF_MEM | BPF_W)) {
            *dst = *(const uint32_t *)((const char *)request + i->off);
        } else if (i->code == (BPF_LD | BPF_IMM | BPF_DW) && pc + 1 < p->count) {
            *dst = (uint32_t)i->imm | (uint64_t)(uint32_t)p->insns[++pc].imm << 32;
        } else {
            uint64_t value = BPF_SRC(i->code) == BPF_X ? reg[i->src_reg] : (uint64_t)(int64_t)i->imm;
            if (BPF_CLASS(i->code) != BPF_ALU64 || !calculate(BPF_OP(i->code), dst, value))
                return -1;
        }
    }
    return -1;
}

static const struct cgroup_device_program *compile(const char *rules, struct error *err)
{
    struct spec_resources *resources;
    const struct cgroup_device_program *program = NULL;
    const char *json = arena_printf(&arena, "{\"devices\":%s}", rules);
    if (spec_parse_resources(&arena, json, strlen(json), &resources, err) == 0)
        (void)cgroup_devices_compile(&arena, resources, &program, err);
    return program;
}

/* Ask the program for these rules a question such as "c 1:3 rw". */
static int verdict(const char *rules, const char *request)
{
    char type, access[8];
    unsigned major, minor;
    struct error err = {0};
    const struct cgroup_device_program *program = compile(rules, &err);
    if (program == NULL || sscanf(request, "%c %u:%u %7s", &type, &major, &minor, access) != 4)
        return -2;
    uint32_t bits = (strchr(access, 'r') != NULL ? BPF_DEVCG_ACC_READ : 0U) |
                    (strchr(access, 'w') != NULL ? BPF_DEVCG_ACC_WRITE : 0U) |
                    (strchr(access, 'm') != NULL ? BPF_DEVCG_ACC_MKNOD : 0U);
    return run(program,
               &(struct bpf_cgroup_dev_ctx){
                   .access_type = bits << 16 | (type == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR),
                   .major = major,
                   .minor = minor,
               });
}

#define DENY_ALL  "{\"allow\":false,\"access\":\"rwm\"}"
#define ALLOW_ALL "{\"allow\":true,\"type\":\"a\"}"
#define RULE(verdict, type, major, minor, access)                                                            \
    "{\"allow\":" verdict ",\"type\":\"" type "\",\"major\":" major ",\"minor\":" minor                      \
    ",\"access\":\"" access "\"}"

#define PODMAN  "[" DENY_ALL "]"
#define FUSE    "[" DENY_ALL "," RULE("true", "c", "10", "229", "rw") "]"
#define IN_TWO  "[" DENY_ALL "," RULE("true", "b", "8", "0", "r") "," RULE("true", "b", "8", "0", "w") "]"
#define NO_NULL "[" DENY_ALL "," RULE("false", "c", "1", "3", "rwm") "]"
#define NO_DISK "[" ALLOW_ALL "," RULE("false", "b", "8", "-1", "w") "]"
#define LAST    "[" DENY_ALL "," RULE("true", "c", "9", "1", "rwm") "," RULE("false", "c", "9", "-1", "rwm") "]"
#define ONE_YES                                                                                              \
    "[" DENY_ALL "," RULE("true", "c", "9", "1", "rwm") "," RULE("false", "a", "-1", "-1", "wm") "]"
#define TOO_HIGH                                                                                             \
    "[" DENY_ALL "," RULE("true", "c", "4096", "5", "rwm") "," RULE("true", "c", "0", "1048581", "r") "]"
#define HIGHEST "[" DENY_ALL "," RULE("true", "c", "4095", "1048575", "rwm") "]"
#define ONLY_NO "[" RULE("false", "b", "8", "0", "rwm") "]"

static const struct {
    const char *rules, *request;
    int expected;
    const char *name;
} rows[] = {
    {PODMAN, "c 1:3 rw", 1, "everything denied: null stays"},
    {PODMAN, "c 1:9 r", 1, "everything denied: urandom stays"},
    {PODMAN, "c 5:2 rw", 1, "everything denied: ptmx stays"},
    {PODMAN, "c 136:17 rw", 1, "everything denied: every pts stays"},
    {PODMAN, "c 10:200 rw", 1, "everything denied: tun stays"},
    {PODMAN, "b 8:0 m", 1, "everything denied: nodes may be created"},
    {PODMAN, "b 8:0 r", 0, "everything denied: and not be read"},
    {PODMAN, "b 8:0 rm", 0, "everything denied: creating and reading is refused"},
    {PODMAN, "c 1:1 r", 0, "everything denied: mem"},
    {PODMAN, "b 1:3 r", 0, "everything denied: a block device with null's numbers"},
    {FUSE, "c 10:229 rw", 1, "an allowed device"},
    {FUSE, "c 10:229 r", 1, "an allowed device, less than allowed"},
    {FUSE, "c 10:230 r", 0, "its neighbour"},
    {FUSE, "c 11:229 r", 0, "the same minor of another major"},
    {IN_TWO, "b 8:0 rw", 1, "two rules allow one access each, both are asked for"},
    {NO_NULL, "c 1:3 r", 0, "a rule of the specification removes a default device"},
    {NO_NULL, "c 1:5 r", 1, "and no other"},
    {NO_DISK, "b 8:1 r", 1, "all allowed but writing to disks: read"},
    {NO_DISK, "b 8:1 rw", 0, "all allowed but writing to disks: read and write"},
    {NO_DISK, "c 8:1 w", 1, "all allowed but writing to disks: a character device"},
    {LAST, "c 9:1 r", 0, "the last rule wins"},
    {LAST, "c 9:1 rw", 0, "the last rule wins for each access"},
    {ONE_YES, "c 9:1 w", 0, "all of an access refused"},
    {ONE_YES, "c 9:1 rw", 0, "… and another is not of help"},
    {ONE_YES, "c 9:1 r", 1, "… nor harmed"},
    {ONE_YES, "b 9:1 m", 0, "an access refused for all devices"},
    {TOO_HIGH, "c 0:5 r", 0, "a number that no device has is not a smaller one"},
    {TOO_HIGH, "c 1:5 r", 1, "… nor the rule another's"},
    {HIGHEST, "c 4095:1048575 rwm", 1, "the highest numbers"},
    {HIGHEST, "b 4095:1048575 r", 0, "the highest numbers of another type"},
    {ONLY_NO, "b 8:0 r", 0, "a rule that refuses"},
    {ONLY_NO, "c 250:1 r", 0, "a device without a rule is refused"},
};

int main(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        is_int(verdict(rows[i].rules, rows[i].request), rows[i].expected, "%s (%s)", rows[i].name,
               rows[i].request);
    struct error err = {0};
    ok(compile("[]", &err) == NULL && err.code == 0, "no rules, no program");
    ok(compile("[" ALLOW_ALL "]", &err) == NULL && err.code == 0, "all allowed, no program");
    ok(compile("[" DENY_ALL "," ALLOW_ALL "]", &err) == NULL && err.code == 0,
       "all denied and then all allowed, no program");
    const struct cgroup_device_program *program = compile("[" DENY_ALL "," ALLOW_ALL "," DENY_ALL "]", &err);
    is_int(program->count, compile(PODMAN, &err)->count, "rules before a rule for all are not compiled");
    ok(compile("[" RULE("true", "c", "4294967296", "0", "r") "]", &err) == NULL && err.code < 0,
       "a device number is 32 bits: %s", err.text);
    arena_free(&arena);
    return done_testing();
}
