/* Exchange the memory of the calling process. The restorer runs from pages of its own, on a stack of its own.
 * Nothing else of the program that made the list is left: no C library, no thread-local data, no stack
 * protector. */
#include "warm/restore/restorer/work.h"

#include <asm/errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "warm/restore/restorer/x86_64.h"

/* Nothing of the old program may be left, not even a way back. */
RESTORER_INLINE _Noreturn void give_up(struct restorer_work *work, const struct restorer_step *step,
                                       long result)
{
    struct restorer_report *report = &work->reports[step->report];
    report->code = (int32_t)result;
    char *digit = report->text + report->text_size - 1;
    for (long number = -result, i = 0; i < 3; i++, number /= 10)
        *--digit = (char)('0' + number % 10);
    const uint64_t size = offsetof(struct restorer_report, text) - offsetof(struct restorer_report, message);
    const uint64_t message[6] = {(uint64_t)work->report_fd, (uint64_t)&report->message,
                                 size + report->text_size, MSG_NOSIGNAL};
    if (work->report_fd >= 0)
        (void)restorer_syscall(SYS_sendto, message);
    const uint64_t status[6] = {1};
    for (;;)
        (void)restorer_syscall(SYS_exit_group, status);
}

__attribute__((section("pysbx_restorer"), used)) RESTORER_ALONE _Noreturn void
restorer_run(struct restorer_work *work)
{
    for (uint64_t i = 0; i < work->step_count; i++) {
        const struct restorer_step *step = &work->steps[i];
        long result = restorer_syscall(step->number, step->arguments);
        const uint64_t whole = step->arguments[(step->flags & RESTORER_SUM) != 0 ? 5 : 2];
        if ((step->flags & (RESTORER_WHOLE | RESTORER_SUM)) != 0 && result >= 0 && (uint64_t)result != whole)
            result = -EIO;
        if (result < 0 && result >= -4095 && (step->flags & RESTORER_HINT) == 0)
            give_up(work, step, result);
        if ((step->flags & RESTORER_STORE) != 0)
            *(volatile int *)step->arguments[0] = (int)result;
    }
    restorer_return(work->frame);
}
