/* The minimal init, of which only this code is in the container's first process (container/first.h). It has a
 * filter that allows the system calls below and no others (container/child/first.c). */
#include "container/child/first_program.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/system_call.h"

/* The kernel starts a program with the arguments on the stack. */
#if defined(__x86_64__)
__asm__(".pushsection pysbx_first,\"ax\",%progbits\n"
        ".globl first_enter\n.hidden first_enter\n.type first_enter,%function\n"
        "first_enter:\n\t"
        "mov %rsp, %rdi\n\t"
        "and $-16, %rsp\n\t"
        "call first_main\n\t"
        "ud2\n"
        ".size first_enter, . - first_enter\n"
        ".popsection");
#else
__asm__(".pushsection pysbx_first,\"ax\",%progbits\n"
        ".globl first_enter\n.hidden first_enter\n.type first_enter,%function\n"
        "first_enter:\n\t"
        "mov x0, sp\n\t"
        "bl first_main\n\t"
        "brk 0\n"
        ".size first_enter, . - first_enter\n"
        ".popsection");
#endif

/* Return whether to pass on a signal. Processes of the container have a number here, and those outside
 * have none. A terminal that is closed tells only the leader of the session. All its other signals reach the
 * program as well. */
static inline __attribute__((always_inline)) SYSTEM_CALL_ALONE bool comes_from_outside(long number,
                                                                                       const siginfo_t *info)
{
    if (number == SIGCHLD)
        return false;
    return (info->si_code <= 0 && info->si_pid == 0) || (number == SIGHUP && info->si_code == SI_KERNEL);
}

__attribute__((section("pysbx_first"), used, visibility("hidden"))) SYSTEM_CALL_ALONE _Noreturn void
first_main(const long *stack)
{
    const uint64_t all = ~0ULL, name = 0x74696e69; /* "init" */
    siginfo_t info;
    int status = 0;
    long program = 0, ended;
    for (const char *digit = (const char *)stack[2]; *digit != '\0'; digit++)
        program = program * 10 + (*digit - '0');
    info.si_code = SI_KERNEL;
    info.si_pid = 0;
    system_call_long(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0, 0);
    system_call_long(SYS_prctl, PR_SET_NAME, (long)&name, 0, 0, 0, 0);
    long page = system_call_long(SYS_mmap, 0, FIRST_REPORT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
                                 FIRST_REPORT_FD, 0);
    system_call_long(SYS_close, FIRST_REPORT_FD, 0, 0, 0, 0, 0);
    do {
        while ((ended = system_call_long(SYS_wait4, -1, (long)&status, WNOHANG, 0, 0, 0)) > 0 &&
               ended != program)
            ;
        if (ended == program)
            break;
        long got = system_call_long(SYS_rt_sigtimedwait, (long)&all, (long)&info, 0, sizeof(all), 0, 0);
        if (got > 0 && comes_from_outside(got, &info))
            system_call_long(SYS_kill, program, got, 0, 0, 0, 0);
    } while (true);
    if (page > 0) {
        ((volatile int *)page)[FIRST_STATUS] = status;
        ((volatile int *)page)[FIRST_ENDED] = 1;
    }
    const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    for (;;)
        system_call_long(SYS_exit_group, code, 0, 0, 0, 0, 0);
}
