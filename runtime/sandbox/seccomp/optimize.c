/* Partial evaluation. For an architecture and a number, follow the program until it answers or reads an
 * argument. All numbers between two constants of its comparisons have the same outcome. */
#include "sandbox/seccomp/optimize.h"

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

#define OFFSET_NR   offsetof(struct seccomp_data, nr)
#define OFFSET_ARCH offsetof(struct seccomp_data, arch)

struct program {
    const struct sock_filter *filter;
    size_t count;
    const uint32_t *archs;
    size_t arch_count;
};

/* The outcome for a number: an answer, or the instruction that first reads an argument. */
struct outcome {
    bool answered;
    uint32_t value; /* SECCOMP_RET_… or the index of the instruction */
};

struct range {
    uint32_t first; /* up to the first number of the next range */
    struct outcome outcome;
};

/* The result: first the search trees, then the instructions kept from the old program. */
struct output {
    struct sock_filter *filter;
    size_t count;
    size_t kept_start;   /* end of the trees */
    const size_t *moved; /* place of each kept instruction after that */
};

static bool jump_taken(uint16_t code, uint32_t value, uint32_t k)
{
    switch (BPF_OP(code)) {
    case BPF_JEQ:
        return value == k;
    case BPF_JGT:
        return value > k;
    default:
        return value >= k;
    }
}

/* True for the comparisons that libseccomp and the stub write. They compare with constants, so the ranges
 * stay true. Bit operations may follow the load of an argument, but there the program is not followed any
 * more. */
static bool is_comparison(uint16_t code)
{
    return code == (BPF_JMP | BPF_JEQ | BPF_K) || code == (BPF_JMP | BPF_JGT | BPF_K) ||
           code == (BPF_JMP | BPF_JGE | BPF_K);
}

static bool optimize_is_listed(const struct program *p, uint32_t arch)
{
    for (size_t i = 0; i < p->arch_count; i++)
        if (p->archs[i] == arch)
            return true;
    return false;
}

/* Follow the program for one number. Return false at an instruction that is not understood. An architecture
 * may only be compared for equality with the listed ones, so that all others have the same outcome. */
static bool optimize_follow(const struct program *p, uint32_t arch, uint32_t nr, struct outcome *out)
{
    uint32_t accumulator = 0;
    bool is_arch = false;
    for (size_t pc = 0; pc < p->count; pc++) {
        const struct sock_filter *f = &p->filter[pc];
        if (f->code == (BPF_RET | BPF_K)) {
            *out = (struct outcome){true, f->k};
            return true;
        }
        if (f->code == (BPF_LD | BPF_W | BPF_ABS)) {
            if (f->k != OFFSET_NR && f->k != OFFSET_ARCH) {
                *out = (struct outcome){false, (uint32_t)pc};
                return true;
            }
            is_arch = f->k == OFFSET_ARCH;
            accumulator = is_arch ? arch : nr;
        } else if (f->code == (BPF_JMP | BPF_JA)) {
            pc += f->k;
        } else if (is_comparison(f->code)) {
            if (is_arch && (BPF_OP(f->code) != BPF_JEQ || !optimize_is_listed(p, f->k)))
                return false;
            pc += jump_taken(f->code, accumulator, f->k) ? f->jt : f->jf;
        } else {
            return false;
        }
    }
    return false;
}

static int compare_numbers(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

/* Return every number at which a comparison changes its result, sorted, beginning with 0. */
static uint32_t *find_breaks(struct arena *a, const struct program *p, size_t *count)
{
    uint32_t *breaks = ARENA_ARRAY(a, 2 * p->count + 1, uint32_t);
    size_t n = 0;
    breaks[n++] = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (!is_comparison(p->filter[i].code))
            continue;
        breaks[n++] = p->filter[i].k;
        if (p->filter[i].k != UINT32_MAX)
            breaks[n++] = p->filter[i].k + 1;
    }
    qsort(breaks, n, sizeof(*breaks), compare_numbers);
    *count = n;
    return breaks;
}

static bool same_outcome(struct outcome a, struct outcome b)
{
    return a.answered == b.answered && a.value == b.value;
}

/* Return the ranges of an architecture; adjacent ones have different outcomes. NULL: the program is not
 * understood. */
static struct range *optimize_find_ranges(struct arena *a, const struct program *p, uint32_t arch,
                                          size_t *count)
{
    size_t breaks, n = 0;
    const uint32_t *numbers = find_breaks(a, p, &breaks);
    struct range *ranges = ARENA_ARRAY(a, breaks, struct range);
    for (size_t i = 0; i < breaks; i++) {
        struct range range = {.first = numbers[i]};
        if (!optimize_follow(p, arch, numbers[i], &range.outcome))
            return NULL;
        if (n == 0 || !same_outcome(ranges[n - 1].outcome, range.outcome))
            ranges[n++] = range;
    }
    *count = n;
    return ranges;
}

static void mark_tails(const struct program *p, const struct range *ranges, size_t count, bool *kept)
{
    for (size_t i = 0; i < count; i++)
        if (!ranges[i].outcome.answered)
            kept[ranges[i].outcome.value] = true;
    /* Jumps lead only forwards, so one pass finds every reachable instruction. */
    for (size_t pc = 0; pc < p->count; pc++) {
        const struct sock_filter *f = &p->filter[pc];
        if (!kept[pc] || BPF_CLASS(f->code) == BPF_RET)
            continue;
        if (f->code == (BPF_JMP | BPF_JA)) {
            kept[pc + 1 + f->k] = true;
        } else if (BPF_CLASS(f->code) == BPF_JMP) {
            kept[pc + 1 + f->jt] = true;
            kept[pc + 1 + f->jf] = true;
        } else {
            kept[pc + 1] = true;
        }
    }
}

static void optimize_emit(struct output *out, int code, size_t jt, size_t jf, uint32_t k)
{
    out->filter[out->count++] = (struct sock_filter){(uint16_t)code, (uint8_t)jt, (uint8_t)jf, k};
}

/* A conditional jump has eight bits for the distance. For a longer distance it jumps to or over an
 * unconditional one. */
static size_t jump_size(size_t distance)
{
    return distance > UINT8_MAX ? 2 : 1;
}

static size_t tree_size(size_t count)
{
    if (count == 1)
        return 1;
    size_t left = tree_size(count / 2);
    return jump_size(left) + left + tree_size(count - count / 2);
}

/* Emit the search tree. The accumulator holds the number. */
static void emit_tree(struct output *out, const struct range *ranges, size_t count)
{
    if (count == 1) {
        struct outcome o = ranges[0].outcome;
        if (o.answered)
            optimize_emit(out, BPF_RET | BPF_K, 0, 0, o.value);
        else
            optimize_emit(out, BPF_JMP | BPF_JA, 0, 0,
                          (uint32_t)(out->kept_start + out->moved[o.value] - out->count - 1));
        return;
    }
    size_t half = count / 2, left = tree_size(half);
    if (jump_size(left) == 1) {
        optimize_emit(out, BPF_JMP | BPF_JGE | BPF_K, left, 0, ranges[half].first);
    } else {
        optimize_emit(out, BPF_JMP | BPF_JGE | BPF_K, 0, 1, ranges[half].first);
        optimize_emit(out, BPF_JMP | BPF_JA, 0, 0, (uint32_t)left);
    }
    emit_tree(out, ranges, half);
    emit_tree(out, ranges + half, count - half);
}

struct tree {
    uint32_t arch;
    struct range *ranges;
    size_t count;
};

/* Return the size of the test for the architecture, the load of the number, and the tree. */
static size_t arch_size(const struct tree *tree)
{
    size_t rest = 1 + tree_size(tree->count);
    return jump_size(rest) + rest;
}

static void emit_arch(struct output *out, const struct tree *tree)
{
    size_t rest = 1 + tree_size(tree->count);
    if (jump_size(rest) == 1) {
        optimize_emit(out, BPF_JMP | BPF_JEQ | BPF_K, 0, rest, tree->arch);
    } else {
        optimize_emit(out, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, tree->arch);
        optimize_emit(out, BPF_JMP | BPF_JA, 0, 0, (uint32_t)rest);
    }
    optimize_emit(out, BPF_LD | BPF_W | BPF_ABS, 0, 0, OFFSET_NR);
    emit_tree(out, tree->ranges, tree->count);
}

/* Emit the kept instructions in their old order, in which distances can only become shorter. */
static void emit_kept(struct output *out, const struct program *p, const bool *kept)
{
    for (size_t pc = 0; pc < p->count; pc++) {
        if (!kept[pc])
            continue;
        struct sock_filter f = p->filter[pc];
        size_t next = out->moved[pc] + 1;
        if (f.code == (BPF_JMP | BPF_JA)) {
            f.k = (uint32_t)(out->moved[pc + 1 + f.k] - next);
        } else if (BPF_CLASS(f.code) == BPF_JMP) {
            f.jt = (uint8_t)(out->moved[pc + 1 + f.jt] - next);
            f.jf = (uint8_t)(out->moved[pc + 1 + f.jf] - next);
        }
        optimize_emit(out, f.code, f.jt, f.jf, f.k);
    }
}

/* Check the same as the kernel: no jump leads outside, and the last instruction answers. */
static bool optimize_is_sound(const struct program *p)
{
    if (p->count == 0 || p->count > BPF_MAXINSNS || BPF_CLASS(p->filter[p->count - 1].code) != BPF_RET)
        return false;
    for (size_t pc = 0; pc < p->count; pc++) {
        const struct sock_filter *f = &p->filter[pc];
        size_t farthest = 0;
        if (f->code == (BPF_JMP | BPF_JA))
            farthest = f->k;
        else if (BPF_CLASS(f->code) == BPF_JMP)
            farthest = f->jt > f->jf ? f->jt : f->jf;
        if (farthest >= p->count - pc)
            return false;
    }
    return true;
}

/* Return an architecture that is not listed. It represents all of those. */
static uint32_t other_arch(const struct program *p)
{
    uint32_t other = 0;
    while (optimize_is_listed(p, other))
        other++;
    return other;
}

/* Find the ranges of all architectures, and the one answer to the others. */
static bool find_trees(struct arena *a, const struct program *p, struct tree *trees, uint32_t *other)
{
    struct tree rest;
    rest.ranges = optimize_find_ranges(a, p, other_arch(p), &rest.count);
    if (rest.ranges == NULL || rest.count != 1 || !rest.ranges[0].outcome.answered)
        return false;
    *other = rest.ranges[0].outcome.value;
    for (size_t i = 0; i < p->arch_count; i++) {
        trees[i].arch = p->archs[i];
        trees[i].ranges = optimize_find_ranges(a, p, p->archs[i], &trees[i].count);
        if (trees[i].ranges == NULL)
            return false;
    }
    return true;
}

void seccomp_optimize(struct arena *a, const uint32_t *archs, size_t arch_count,
                      const struct sock_filter **filter, size_t *count)
{
    const struct program p = {*filter, *count, archs, arch_count};
    struct tree *trees = ARENA_ARRAY(a, arch_count, struct tree);
    uint32_t other;
    if (!optimize_is_sound(&p) || !find_trees(a, &p, trees, &other))
        return;
    bool *kept = ARENA_ARRAY(a, p.count, bool);
    size_t *moved = ARENA_ARRAY(a, p.count, size_t);
    struct output out = {.kept_start = 2, .moved = moved};
    for (size_t i = 0; i < arch_count; i++) {
        mark_tails(&p, trees[i].ranges, trees[i].count, kept);
        out.kept_start += arch_size(&trees[i]);
    }
    size_t kept_count = 0;
    for (size_t pc = 0; pc < p.count; pc++) {
        moved[pc] = kept_count;
        kept_count += kept[pc];
    }
    if (out.kept_start + kept_count >= p.count)
        return;
    out.filter = ARENA_ARRAY(a, out.kept_start + kept_count, struct sock_filter);
    optimize_emit(&out, BPF_LD | BPF_W | BPF_ABS, 0, 0, OFFSET_ARCH);
    for (size_t i = 0; i < arch_count; i++)
        emit_arch(&out, &trees[i]);
    optimize_emit(&out, BPF_RET | BPF_K, 0, 0, other);
    emit_kept(&out, &p, kept);
    *filter = out.filter;
    *count = out.count;
}
