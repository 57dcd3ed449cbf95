/* Types, interned strings and the interpreter's caches are spread over the whole snapshot. Freeing them
 * writes to half of its pages, and each page that a process writes to is copied. Nothing observes whether
 * they are freed. But only Py_RunMain() knows the exit status, and it continues when Py_FinalizeEx() returns.
 * So the agent makes Py_FinalizeEx() return early. Deep in it, when the dictionary of the interpreter goes,
 * CPython calls a destructor of the agent. From there the stack is unwound up to the caller of
 * Py_FinalizeEx(), as by an exception of C++. The frames that are skipped are functions of CPython that free
 * memory, and they hold no lock there. The frame at the bottom of the stack proves that the tables led the
 * right way. */
#include "warm/agent/ending.h"

#include <stdbool.h>
#include <stddef.h>

#include "warm/agent/python_abi.h"
#include "warm/agent/unwind.h"

#define FRAMES_MAX     128
#define EXIT_FUNCTIONS 32 /* NEXITFUNCS of CPython: the limit of Py_AtExit() */

/* The frame that Py_RunMain() returns to. */
__attribute__((used)) static struct frame bottom;

/* note_frame: store the caller's frame, as it is after the call. call_main: store the frame, and call
 * Py_RunMain(). jump_to_main: enter Py_RunMain() as if the frame `bottom` had called it. end_early: the
 * destructor, which returns, or jumps to the frame that find_end() returns. */
__asm__(".text\n"
        ".type note_frame, @function\n"
        "note_frame:\n"
        "    mov %rbx, 0(%rdi)\n"
        "    mov %rbp, 8(%rdi)\n"
        "    mov %r12, 16(%rdi)\n"
        "    mov %r13, 24(%rdi)\n"
        "    mov %r14, 32(%rdi)\n"
        "    mov %r15, 40(%rdi)\n"
        "    lea 8(%rsp), %rax\n"
        "    mov %rax, 48(%rdi)\n"
        "    mov 0(%rsp), %rax\n"
        "    mov %rax, 56(%rdi)\n"
        "    ret\n"
        ".size note_frame, . - note_frame\n"
        ".type call_main, @function\n"
        "call_main:\n"
        "    sub $8, %rsp\n"
        "    lea bottom(%rip), %rdi\n"
        "    call note_frame\n"
        "    lea 1f(%rip), %rcx\n"
        "    mov %rcx, 56(%rdi)\n"
        "    call Py_RunMain@PLT\n"
        "1:  add $8, %rsp\n"
        "    ret\n"
        ".size call_main, . - call_main\n"
        ".type jump_to_main, @function\n"
        "jump_to_main:\n"
        "    lea bottom(%rip), %rdi\n"
        "    mov 0(%rdi), %rbx\n"
        "    mov 8(%rdi), %rbp\n"
        "    mov 16(%rdi), %r12\n"
        "    mov 24(%rdi), %r13\n"
        "    mov 32(%rdi), %r14\n"
        "    mov 40(%rdi), %r15\n"
        "    mov 48(%rdi), %rsp\n"
        "    push 56(%rdi)\n"
        "    jmp Py_RunMain@PLT\n"
        ".size jump_to_main, . - jump_to_main\n"
        ".type end_early, @function\n"
        "end_early:\n"
        "    sub $72, %rsp\n"
        "    mov %rsp, %rdi\n"
        "    call note_frame\n"
        "    lea 80(%rsp), %rax\n"
        "    mov %rax, 48(%rdi)\n"
        "    mov 72(%rsp), %rax\n"
        "    mov %rax, 56(%rdi)\n"
        "    call find_end\n"
        "    test %al, %al\n"
        "    jz 1f\n"
        "    mov 0(%rsp), %rbx\n"
        "    mov 8(%rsp), %rbp\n"
        "    mov 16(%rsp), %r12\n"
        "    mov 24(%rsp), %r13\n"
        "    mov 32(%rsp), %r14\n"
        "    mov 40(%rsp), %r15\n"
        "    mov 56(%rsp), %rcx\n"
        "    mov 48(%rsp), %rsp\n"
        "    xor %eax, %eax\n"
        "    jmp *%rcx\n"
        "1:  add $72, %rsp\n"
        "    ret\n"
        ".size end_early, . - end_early\n");

void note_frame(struct frame *frame) __attribute__((visibility("hidden")));
int call_main(void) __attribute__((visibility("hidden")));
_Noreturn void jump_to_main(void) __attribute__((visibility("hidden")));
void end_early(PyObject *capsule) __attribute__((visibility("hidden")));

/* Return where the code of Py_FinalizeEx() begins. From 3.13 on Py_FinalizeEx() may be only a jump to it. */
static uint64_t finalization(void)
{
    const uint8_t *code = (const uint8_t *)(uintptr_t)Py_FinalizeEx;
    int32_t offset;
    if (code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa) /* endbr64 */
        code += 4;
    if (code[0] == 0x48 && code[1] == 0x8d && code[2] == 0x3d) /* lea _PyRuntime(%rip), %rdi */
        code += 7;
    if (code[0] != 0xe9)
        return (uint64_t)(uintptr_t)Py_FinalizeEx;
    __builtin_memcpy(&offset, code + 1, sizeof(offset));
    return (uint64_t)(uintptr_t)(code + 5) + (uint64_t)(int64_t)offset;
}

static bool is_bottom(const struct frame *f)
{
    return f->rip == bottom.rip && f->rsp == bottom.rsp && f->rbx == bottom.rbx && f->rbp == bottom.rbp &&
           f->r12 == bottom.r12 && f->r13 == bottom.r13 && f->r14 == bottom.r14 && f->r15 == bottom.r15;
}

/* Return whether the CPU keeps return addresses on a shadow stack. It would find another address there. */
static bool has_shadow_stack(void)
{
    uint64_t pointer = 0;
    __asm__ volatile("rdsspq %0" : "+r"(pointer));
    return pointer != 0;
}

void find_bottom(void)
{
    struct frame f;
    uint64_t function;
    note_frame(&f);
    for (int i = 0; i < FRAMES_MAX && unwind(&f, &function); i++)
        if (function == (uint64_t)(uintptr_t)Py_RunMain || function == (uint64_t)(uintptr_t)Py_BytesMain) {
            bottom = f;
            return;
        }
}

void run_main(void)
{
    if (bottom.rip != 0 && !has_shadow_stack())
        jump_to_main();
    exit(call_main());
}

enum place { ENDING, RUNNING, UNKNOWN };

/* If the process is ENDING, set the frame to that of Py_FinalizeEx()'s caller. */
static enum place find_caller(struct frame *frame)
{
    const uint64_t wanted = finalization();
    struct frame f = *frame;
    enum place place = RUNNING;
    for (int i = 0; i < FRAMES_MAX; i++) {
        uint64_t function, below = f.rsp;
        if (!unwind(&f, &function) || f.rsp <= below)
            return UNKNOWN;
        if (function == wanted && place == RUNNING) {
            *frame = f;
            place = ENDING;
        }
        if (is_bottom(&f))
            return place;
    }
    return UNKNOWN;
}

__attribute__((used)) static bool find_end(struct frame *frame)
{
    return !has_shadow_stack() && find_caller(frame) == ENDING;
}

bool is_ending(void)
{
    struct frame frame;
    note_frame(&frame);
    return find_caller(&frame) != RUNNING;
}

static void nothing(void)
{
}

void shorten_ending(void)
{
    int count = 0;
    while (count <= EXIT_FUNCTIONS && Py_AtExit(nothing) == 0)
        count++;
    PyObject *things = PyInterpreterState_GetDict(PyInterpreterState_Get());
    if (count != EXIT_FUNCTIONS || things == NULL)
        return;
    PyObject *capsule = PyCapsule_New(&bottom, "ending", end_early);
    if (capsule == NULL || PyDict_SetItemString(things, "ending", capsule) < 0)
        PyErr_Clear();
    Py_DecRef(capsule);
}
