/* Build the frame of a signal that never occurred: rt_sigreturn(2) sets registers, signal mask and alternate
 * stack from it in one step. x86-64 (arch/x86/include/uapi/asm/sigcontext.h of the kernel). */
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "warm/restore/plan.h"

/* Of the kernel's ucontext: the stack segment is used as written. */
#define UC_SIGCONTEXT_SS     0x2
#define UC_STRICT_RESTORE_SS 0x4

#define USER_CODE_SEGMENT  0x33ULL
#define USER_STACK_SEGMENT 0x2bULL

/* The flags that a program may set and a function must preserve: only the direction, which is 0. */
#define FLAGS_KEPT 0x202ULL

void restore_plan_frame(struct restore_plan *plan)
{
    const struct snapshot_thread *t = &plan->snapshot->header->thread;
    ucontext_t *context = restore_plan_alloc(plan, sizeof(*context));
    /* Without the mark of an extended state the kernel takes these 512 bytes and sets the rest to its initial
     * values (fpu__restore_sig). A function call preserves none of the vector registers. */
    void *fpu = restore_plan_alloc(plan, sizeof(t->fpu));
    memcpy(fpu, t->fpu, sizeof(t->fpu));
    memset((char *)fpu + 464, 0, 48); /* private to the kernel, with another meaning here */
    mcontext_t *m = &context->uc_mcontext;
    m->fpregs = fpu;
    const struct {
        int index;
        uint64_t value;
    } registers[] = {
        {REG_RIP, t->rip},
        {REG_RSP, t->rsp},
        {REG_RBP, t->rbp},
        {REG_RBX, t->rbx},
        {REG_R12, t->r12},
        {REG_R13, t->r13},
        {REG_R14, t->r14},
        {REG_R15, t->r15},
        {REG_EFL, FLAGS_KEPT},
        {REG_RAX, plan->params},
        {REG_CSGSFS, (long long)(USER_CODE_SEGMENT | USER_STACK_SEGMENT << 48)},
    };
    for (size_t i = 0; i < sizeof(registers) / sizeof(*registers); i++)
        m->gregs[registers[i].index] = (greg_t)registers[i].value;
    context->uc_flags = UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
    context->uc_stack.ss_sp = (void *)t->altstack;
    context->uc_stack.ss_flags = (int)t->altstack_flags;
    context->uc_stack.ss_size = t->altstack_size;
    /* The kernel's mask is the first eight bytes of the C library's. */
    memcpy(&context->uc_sigmask, &t->signal_mask, sizeof(t->signal_mask));
    plan->work->frame = (uint64_t)context;
}
