/* Read .eh_frame, in the forms that compilers write for C, without expressions. */
#include "warm/agent/unwind.h"

#include <elf.h>
#include <stddef.h>

#include "warm/agent/apart.h"
#include "warm/agent/python_abi.h"

/* Numbers of registers in the tables. */
enum { RBX = 3, RBP = 6, RSP = 7, R12 = 12, R15 = 15, RETURN = 16, REGISTERS };

struct cursor {
    const uint8_t *at, *end;
    bool bad;
};

struct rules {
    uint64_t cfa_register, cfa_offset; /* the frame's address is the stack pointer before the call */
    int64_t offset[REGISTERS];         /* from there to where a register was saved */
    bool saved[REGISTERS];
};

#define REMEMBERED_MAX 4

struct program {
    struct rules now, first, remembered[REMEMBERED_MAX];
    size_t remembered_count;
    uint64_t code_unit;
    int64_t data_unit;
    uint64_t place, wanted; /* addresses of code */
};

static uint64_t take(struct cursor *c, size_t size)
{
    uint64_t value = 0;
    if ((size_t)(c->end - c->at) < size) {
        c->bad = true;
        c->at = c->end;
        return 0;
    }
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)c->at[i] << 8 * i;
    c->at += size;
    return value;
}

/* Read a LEB128 number: seven bits per byte, the lowest first. A signed number is extended by its highest
 * bit. */
static uint64_t take_number(struct cursor *c, bool sign)
{
    uint64_t value = 0, byte;
    unsigned int shift = 0;
    do {
        byte = take(c, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
    } while ((byte & 0x80) != 0);
    if (sign && shift < 64 && (byte & 0x40) != 0)
        value |= ~0ULL << shift;
    return value;
}

static uint64_t take_unsigned(struct cursor *c)
{
    return take_number(c, false);
}

static int64_t take_signed(struct cursor *c)
{
    return (int64_t)take_number(c, true);
}

static void save(struct program *p, uint64_t number, int64_t units, struct cursor *c)
{
    if (number >= REGISTERS) {
        c->bad = c->bad || number < 17 || number > 32; /* a call does not preserve vector registers */
        return;
    }
    p->now.saved[number] = true;
    p->now.offset[number] = units * p->data_unit;
}

static void restore(struct program *p, uint64_t number)
{
    if (number >= REGISTERS)
        return;
    p->now.saved[number] = p->first.saved[number];
    p->now.offset[number] = p->first.offset[number];
}

static void remember(struct program *p, struct cursor *c)
{
    if (p->remembered_count == REMEMBERED_MAX)
        c->bad = true;
    else
        p->remembered[p->remembered_count++] = p->now;
}

static void recall(struct program *p, struct cursor *c)
{
    if (p->remembered_count == 0)
        c->bad = true;
    else
        p->now = p->remembered[--p->remembered_count];
}

/* Run an instruction (DW_CFA_*) that has no operand in its first byte. */
static void step(struct program *p, uint8_t code, struct cursor *c)
{
    uint64_t number;
    switch (code) {
    case 0x00: /* nop */
        return;
    case 0x02: /* advance_loc1, 2, 4 */
    case 0x03:
    case 0x04:
        p->place += take(c, (size_t)1 << (code - 2)) * p->code_unit;
        return;
    case 0x05: /* offset_extended */
        number = take_unsigned(c);
        save(p, number, (int64_t)take_unsigned(c), c);
        return;
    case 0x06: /* restore_extended */
        restore(p, take_unsigned(c));
        return;
    case 0x08: /* same_value */
        number = take_unsigned(c);
        if (number < REGISTERS)
            p->now.saved[number] = false;
        return;
    case 0x0a:
        remember(p, c);
        return;
    case 0x0b:
        recall(p, c);
        return;
    case 0x0c: /* def_cfa */
        p->now.cfa_register = take_unsigned(c);
        p->now.cfa_offset = take_unsigned(c);
        return;
    case 0x0d: /* def_cfa_register */
        p->now.cfa_register = take_unsigned(c);
        return;
    case 0x0e: /* def_cfa_offset */
        p->now.cfa_offset = take_unsigned(c);
        return;
    case 0x2e: /* GNU_args_size */
        take_unsigned(c);
        return;
    default:
        c->bad = true;
    }
}

/* Run the instructions up to the wanted address. False: one of them is not known. */
static bool run(struct program *p, struct cursor c)
{
    while (c.at < c.end && p->place <= p->wanted && !c.bad) {
        uint8_t code = (uint8_t)take(&c, 1), low = code & 0x3f;
        switch (code >> 6) {
        case 1: /* advance_loc */
            p->place += low * p->code_unit;
            break;
        case 2: /* offset */
            save(p, low, (int64_t)take_unsigned(&c), &c);
            break;
        case 3:
            restore(p, low);
            break;
        default:
            step(p, code, &c);
        }
    }
    return !c.bad;
}

static uint64_t relative(const uint8_t *at)
{
    int32_t offset;
    __builtin_memcpy(&offset, at, sizeof(offset));
    return (uint64_t)(uintptr_t)at + (uint64_t)(int64_t)offset;
}

/* Open a record of the section, after its length. */
static struct cursor open_record(const uint8_t *at)
{
    uint32_t size;
    __builtin_memcpy(&size, at, sizeof(size));
    return (struct cursor){.at = at + 4, .end = at + 4 + size, .bad = size == 0 || size == 0xffffffff};
}

#define FOUR_BYTES_FROM_HERE 0x1b /* DW_EH_PE_pcrel | DW_EH_PE_sdata4 */

/* Read the common part of records (CIE): units, and the first rules. */
static bool read_common(const uint8_t *at, struct program *p)
{
    struct cursor c = open_record(at);
    const uint64_t kind = take(&c, 4), version = take(&c, 1), augmentation = take(&c, 3);
    if (kind != 0 || version != 1 || augmentation != ('z' | 'R' << 8))
        return false;
    p->code_unit = take_unsigned(&c);
    p->data_unit = take_signed(&c);
    const uint64_t return_register = take_unsigned(&c), more = take_unsigned(&c), encoding = take(&c, 1);
    if (return_register != RETURN || more != 1 || encoding != FOUR_BYTES_FROM_HERE)
        return false;
    p->place = p->wanted = 0;
    return !c.bad && run(p, c);
}

/* Read the record of a function (FDE): the rules at an address in it. */
static bool read_function(const uint8_t *at, uint64_t place, struct rules *rules, uint64_t *function)
{
    struct program p = {0};
    struct cursor c = open_record(at);
    const uint8_t *here = c.at;
    uint64_t back = take(&c, 4);
    if (c.bad || back == 0 || !read_common(here - back, &p))
        return false;
    p.first = p.now;
    p.place = *function = relative(c.at);
    p.wanted = place;
    take(&c, 4);
    uint64_t size = take(&c, 4);
    uint64_t augmentation = take_unsigned(&c);
    if (place < p.place || place - p.place >= size || augmentation != 0 || c.bad || !run(&p, c))
        return false;
    *rules = p.now;
    return true;
}

/* The search table .eh_frame_hdr, as every linker writes it: pairs of addresses, relative to its own start.
 */
struct table {
    uint8_t version, pointer, count_encoding, encoding;
    int32_t frames;
    uint32_t count;
    struct {
        int32_t function, record;
    } entries[];
};

struct search {
    uint64_t place;
    const struct table *table;
};

static int find_table(struct loaded *loaded, unsigned long size, void *data)
{
    (void)size;
    struct search *search = data;
    const struct table *table = NULL;
    bool here = false;
    const Elf64_Phdr *headers = loaded->headers;
    for (unsigned int i = 0; i < loaded->header_count; i++) {
        uint64_t start = loaded->address + headers[i].p_vaddr;
        if (headers[i].p_type == PT_GNU_EH_FRAME)
            table = (const struct table *)(uintptr_t)start;
        here |= headers[i].p_type == PT_LOAD && search->place >= start &&
                search->place - start < headers[i].p_memsz;
    }
    if (!here)
        return 0;
    search->table = table;
    return 1;
}

static const uint8_t *find_record(uint64_t place)
{
    struct search search = {.place = place};
    struct loaded own = own_object();
    if (find_table(&own, 0, &search) == 0)
        dl_iterate_phdr(find_table, &search);
    const struct table *table = search.table;
    /* Expect a pointer as sdata4 relative to itself, the count as udata4, entries as sdata4 from the table.
     */
    if (table == NULL || table->version != 1 || table->pointer != FOUR_BYTES_FROM_HERE ||
        table->count_encoding != 0x03 || table->encoding != 0x3b)
        return NULL;
    const char *start = (const char *)table;
    int64_t wanted = (int64_t)(place - (uint64_t)(uintptr_t)start);
    uint32_t low = 0, high = table->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (table->entries[middle].function <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? (const uint8_t *)(start + table->entries[low - 1].record) : NULL;
}

static uint64_t value(const struct rules *rules, int number, uint64_t cfa, uint64_t now)
{
    return rules->saved[number] ? *(const uint64_t *)(uintptr_t)(cfa + (uint64_t)rules->offset[number]) : now;
}

bool unwind(struct frame *frame, uint64_t *function)
{
    struct rules rules;
    /* If a call is the last instruction of a function, the return address is after the function's end. */
    const uint8_t *record = find_record(frame->rip - 1);
    if (record == NULL || !read_function(record, frame->rip - 1, &rules, function) || !rules.saved[RETURN] ||
        (rules.cfa_register != RSP && rules.cfa_register != RBP))
        return false;
    uint64_t cfa = (rules.cfa_register == RSP ? frame->rsp : frame->rbp) + rules.cfa_offset;
    *frame = (struct frame){
        .rbx = value(&rules, RBX, cfa, frame->rbx),
        .rbp = value(&rules, RBP, cfa, frame->rbp),
        .r12 = value(&rules, R12, cfa, frame->r12),
        .r13 = value(&rules, R12 + 1, cfa, frame->r13),
        .r14 = value(&rules, R12 + 2, cfa, frame->r14),
        .r15 = value(&rules, R15, cfa, frame->r15),
        .rsp = cfa,
        .rip = value(&rules, RETURN, cfa, 0),
    };
    return true;
}
