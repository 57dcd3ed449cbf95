/* Find the part of the address space for the data of a restore: neither the running program nor the snapshot
 * may have anything there. */
#pragma once

#include <stdint.h>

struct error;
struct snapshot;
struct snapshot_vma;

/* Consecutive parts, in whole pages:
 *
 *     code | data | strings | parking
 *
 * The agent unmaps code and data. The strings stay, because /proc/PID/cmdline and environ show them. The
 * parking holds the vdso and vvar areas while everything else is exchanged. */
struct restore_place {
    uint64_t code, code_size;
    uint64_t data, data_size;
    uint64_t strings, strings_size;
    uint64_t parking, parking_size;
};

/* Fill in the addresses for the given sizes and map the parts: the restorer's code, memory for data and
 * strings, nothing for the parking. Return 0 or negative errno. */
int restore_place_make(const struct snapshot *snapshot, struct restore_place *place, struct error *err);
void restore_place_unmake(const struct restore_place *place);

/* Return the lowest address of the snapshot's stack, which lets it be as large as RLIMIT_STACK allows. */
uint64_t restore_place_stack(const struct snapshot *snapshot, const struct snapshot_vma *stack);
