/* Compare machines: a snapshot is valid for one kernel, CPU and agent. No file is read, because the check
 * runs in a container, where /proc may be hidden. x86-64. */
#include <cpuid.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>

#include "base/hash.h"
#include "warm/agent/agent.h"
#include "warm/snapshot/snapshot.h"

/* Leaves of CPUID that list the available instructions (Intel SDM, volume 2, CPUID). EBX of leaf 1 is left
 * out: it contains the number of the CPU on which the program currently runs. */
static const struct {
    unsigned leaf, subleaf;
    unsigned mask_b;
} leaves[] = {
    {0x0, 0, ~0U}, {0x1, 0, 0}, {0x7, 0, ~0U}, {0x7, 1, ~0U}, {0xd, 1, 0}, {0x80000001, 0, ~0U},
};

_Static_assert(sizeof(((struct snapshot_host *)0)->agent) == AGENT_IDENTITY_SIZE,
               "the header has room for it");

static uint64_t hash_cpu(void)
{
    unsigned basic = __get_cpuid_max(0, NULL), extended = __get_cpuid_max(0x80000000U, NULL);
    unsigned answers[sizeof(leaves) / sizeof(*leaves)][4] = {0};
    for (size_t i = 0; i < sizeof(leaves) / sizeof(*leaves); i++) {
        unsigned *r = answers[i];
        if (leaves[i].leaf <= (leaves[i].leaf >= 0x80000000U ? extended : basic))
            __cpuid_count(leaves[i].leaf, leaves[i].subleaf, r[0], r[1], r[2], r[3]);
        r[1] &= leaves[i].mask_b;
    }
    return hash_bytes(answers, sizeof(answers)).a;
}

/* Hash the kernel's whole shared object, to the end of its section headers, which come last. */
static uint64_t hash_vdso(void)
{
    const Elf64_Ehdr *elf = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
    if (elf == NULL)
        return 0;
    return hash_bytes(elf, elf->e_shoff + (size_t)elf->e_shnum * elf->e_shentsize).a;
}

void snapshot_host_now(struct snapshot_host *out)
{
    memset(out, 0, sizeof(*out));
    struct utsname name;
    if (uname(&name) == 0) {
        snprintf(out->release, sizeof(out->release), "%s", name.release);
        snprintf(out->version, sizeof(out->version), "%s", name.version);
    }
    memcpy(out->agent, agent_identity, sizeof(out->agent));
    out->cpu = hash_cpu();
    out->vdso = hash_vdso();
}

const char *snapshot_host_difference(const struct snapshot_host *a, const struct snapshot_host *b)
{
    if (memcmp(a->release, b->release, sizeof(a->release)) != 0 ||
        memcmp(a->version, b->version, sizeof(a->version)) != 0)
        return "on another kernel";
    if (memcmp(a->agent, b->agent, sizeof(a->agent)) != 0)
        return "by another build of the runtime";
    if (a->vdso != b->vdso)
        return "on another vdso";
    if (a->cpu != b->cpu)
        return "on another CPU";
    return NULL;
}
