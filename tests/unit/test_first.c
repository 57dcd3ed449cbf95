/* container/first.h: the minimal init, executed as an ordinary process, and the look for its program. */
#include "container/first.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/proc.h"
#include "base/sys.h"
#include "container/child/first_program.h"
#include "container/record.h"
#include "unit.h"

static struct error error;

static _Noreturn void become(const struct first_plan *first, pid_t program)
{
    char number[16], *argv[] = {(char[]){"init"}, number, NULL}, *none[] = {NULL};
    snprintf(number, sizeof(number), "%d", (int)program);
    dup2(first->report, FIRST_REPORT_FD);
    syscall(SYS_execveat, first->program, "", argv, none, AT_EMPTY_PATH);
    _exit(99);
}

/* Start an init whose program begins with an orphan, and ends with an exit code or by a signal, when it can
 * read from the pipe. */
static pid_t begin(const struct first_plan *first, int pipe, int code, int signal)
{
    const uint64_t all = ~0ULL;
    pid_t init = fork();
    if (init > 0)
        return init;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof(all));
    pid_t program = fork();
    if (program > 0)
        become(first, program);
    const uint64_t none = 0;
    char byte;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
    if (RETRY(read(pipe, &byte, 1)) != 1)
        _exit(98);
    if (signal != 0)
        kill(getpid(), signal);
    _exit(code);
}

static void has_name(pid_t pid, const char *name)
{
    char path[64], text[64] = "";
    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    for (int i = 0; i < 1000 && strcmp(text, name) != 0; i++) {
        usleep(1000);
        cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        text[n > 0 ? n - 1 : 0] = '\0';
    }
    is_str(text, name, "the init has its name");
}

static pid_t pid_of(int pidfd)
{
    char path[64], line[128];
    int pid = -1;
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "Pid: %d", &pid) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return pid;
}

static void test_endings(void)
{
    const struct {
        int code, signal, exit_code;
        const char *name;
    } cases[] = {
        {0, 0, 0, "an exit code of 0"},
        {7, 0, 7, "an exit code"},
        {143, 0, 143, "an exit code that looks like a signal"},
        {0, SIGTERM, 143, "a signal"},
        {0, SIGKILL, 137, "a signal that cannot be caught"},
        {0, SIGRTMAX, 128 + 64, "the last signal"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct first_plan first = FIRST_PLAN_NONE;
        int ends[2], status = 0;
        first.wanted = true;
        if (first_prepare(&first, true, &error) < 0 || pipe2(ends, O_CLOEXEC) < 0)
            bail_out("%s", error.text);
        pid_t init = begin(&first, ends[0], cases[i].code, cases[i].signal);
        is_int(write(ends[1], "", 1), 1, "the program goes on");
        RETRY(waitpid(init, &status, 0));
        ok(WIFEXITED(status) && WEXITSTATUS(status) == cases[i].exit_code, "%s", cases[i].name);
        int told = first_status(&first, status);
        ok(cases[i].signal != 0 ? WIFSIGNALED(told) && WTERMSIG(told) == cases[i].signal
                                : WIFEXITED(told) && WEXITSTATUS(told) == cases[i].code,
           "… is told exactly");
        close(ends[0]);
        close(ends[1]);
        first_release(&first);
    }
}

static void test_signals(void)
{
    struct first_plan first = FIRST_PLAN_NONE;
    int ends[2], status = 0;
    first.wanted = true;
    if (first_prepare(&first, true, &error) < 0 || pipe2(ends, O_CLOEXEC) < 0)
        bail_out("%s", error.text);
    pid_t init = begin(&first, ends[0], 7, 0);
    has_name(init, "init");
    struct record record = {.pid = init, .has_init = true};
    struct proc_stat stat = {0};
    proc_read_stat(init, &stat);
    record.start_time = stat.start_time;
    cleanup_fd int program = record_program(&record);
    ok(program >= 0 && pid_of(program) > 0 && pid_of(program) != init,
       "the program is the child of the init");
    record.has_init = false;
    cleanup_fd int itself = record_program(&record);
    is_int(pid_of(itself), init, "without an init it is the process of the record");
    kill(init, SIGTERM);
    kill(init, SIGUSR1);
    is_int(sys_pidfd_send_signal(program, 0, NULL, 0), 0, "a signal of its own namespace is not passed on");
    kill(init, SIGKILL);
    RETRY(waitpid(init, &status, 0));
    status = first_status(&first, status);
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "a killed init reports nothing");
    record.has_init = true;
    is_int(record_program(&record), -ESRCH, "and there is no program any more");
    sys_pidfd_send_signal(program, SIGKILL, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    first_release(&first);
}

static void test_file(void)
{
    struct first_plan first = FIRST_PLAN_NONE;
    struct stat st;
    first.wanted = true;
    is_int(first_prepare(&first, false, &error), 0, "the init is a file");
    ok(first.report < 0 && first.page == NULL, "without a report there is no page");
    is_int(first_status(&first, 7 << 8), 7 << 8, "and the status is that of the init");
    ok(fstat(first.program, &st) == 0 && (st.st_mode & 0777) == 0111, "it can only be executed");
    ok(write(first.program, "x", 1) < 0 && errno == EPERM, "it cannot be changed");
    first_release(&first);
    is_int(first.program, -1, "and is closed");
}

int main(void)
{
    test_file();
    test_endings();
    test_signals();
    return done_testing();
}
