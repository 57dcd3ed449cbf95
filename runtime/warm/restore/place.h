/* Where in the address space what a restore needs can lie: neither the running program nor the snapshot may
 * have anything there. */
#ifndef PYSBX_WARM_RESTORE_PLACE_H
#define PYSBX_WARM_RESTORE_PLACE_H

#include <stdint.h>

struct error;
struct snapshot;
struct snapshot_vma;

/* Parts that follow each other, whole pages:
 *
 *     code | data | strings | parking
 *
 * Code and data are left to the agent, which unmaps them; the strings stay, for /proc/PID/cmdline and environ
 * show them; the parking is where the kernel's own areas wait while everything else is exchanged. */
struct restore_place {
    uint64_t code, code_size;
    uint64_t data, data_size;
    uint64_t strings, strings_size;
    uint64_t parking, parking_size;
};

/* Fill in the addresses for the given sizes and map the parts: the restorer's code, memory for data and
 * strings, nothing for the parking. 0 or negative errno. */
int restore_place_make(const struct snapshot *snapshot, struct restore_place *place, struct error *err);
void restore_place_unmake(const struct restore_place *place);

/* Where the snapshot's stack may begin, so that it can be as large as RLIMIT_STACK allows. */
uint64_t restore_place_stack(const struct snapshot *snapshot, const struct snapshot_vma *stack);

#endif
