/* Find the caller of a function by the compiler's tables: .eh_frame, in the System V ABI for x86-64,
 * section 4.2.4, and DWARF 5, section 6.4. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The state of a function after a call: its address, and the registers that a call preserves. The assembler
 * code in ending.c depends on the order. */
struct frame {
    uint64_t rbx, rbp, r12, r13, r14, r15, rsp, rip;
};

/* Replace the frame of a function by the frame of its caller, and set *function to where the function's code
 * begins. False: the tables have no such function, or use forms that are not known here. Then the frame is
 * unchanged. */
bool unwind(struct frame *frame, uint64_t *function);
