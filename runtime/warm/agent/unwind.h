/* From a function to its caller, as the tables of the compiler tell (.eh_frame: System V ABI for x86-64,
 * section 4.2.4; DWARF 5, section 6.4). */
#ifndef PYSBX_WARM_AGENT_UNWIND_H
#define PYSBX_WARM_AGENT_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

/* Where a function goes on after a call, and with what: the registers that a call preserves. ending.c has the
 * same order in assembler. */
struct frame {
    uint64_t rbx, rbp, r12, r13, r14, r15, rsp, rip;
};

/* Make the frame of a function that of its caller; *function is where its code begins. False: the tables do
 * not tell, or in a way that is not known here, and the frame is as before. */
bool unwind(struct frame *frame, uint64_t *function);

#endif
