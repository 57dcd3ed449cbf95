/* Run a Python program through the agent, without a snapshot file. It creates a builder, and wakes its
 * parked child like a restorer, with ptrace(2). The child gets the caller's streams, working directory and
 * environment, and its end is passed on. Dump and restore are not part of this. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fd.h"
#include "warm/agent/agent.h"
#include "warm/command_line.h"
#include "warm/params.h"

/* The builder keeps the caller's descriptors here until it wakes up: streams, working directory. */
enum { KEPT = 100, KEPT_CWD = KEPT + 3 };

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "wake: %s: %s\n", what, strerror(errno));
    exit(125);
}

static bool closed[3];

/* Remember which streams are closed, and reserve their numbers. */
static void look_at_streams(void)
{
    for (int fd = 0; fd < 3; fd++) {
        closed[fd] = fcntl(fd, F_GETFD) < 0;
        if (closed[fd] && open("/dev/null", O_RDWR | O_CLOEXEC) != fd)
            die("open /dev/null");
    }
}

/* Return the agent as a file. */
static const char *agent_path(struct arena *a)
{
    int fd = memfd_create("agent", 0);
    size_t size = agent_file_size();
    if (fd < 0 || write(fd, agent_start, size) != (ssize_t)size)
        die("write the agent");
    return arena_printf(a, "/proc/%d/fd/%d", (int)getpid(), fd);
}

static _Noreturn void execute_interpreter(char **argv, int report)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int cwd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (null < 0 || cwd < 0 || dup2(cwd, KEPT_CWD) < 0)
        die("prepare the builder");
    for (int fd = 0; fd < 3; fd++)
        if (dup2(fd, KEPT + fd) < 0)
            die("keep a stream");
    if (dup2(report, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 || chdir("/") < 0)
        die("prepare the builder");
    setenv("WAKE_TEMPLATE", "1", 1); /* must be invisible for the program */
    unsetenv("WAKE_PROGRAM");
    execvp(argv[0], argv);
    die(argv[0]);
}

/* The probe's report of random generators, for the builder: " DIGEST" each. */
static char digests[1 << 16];
static size_t digests_size;

static void hear(const char *record)
{
    if (getenv("WAKE_REPORT") != NULL)
        fprintf(stderr, "%s\n", record);
    if (*record == 'x') {
        fprintf(stderr, "wake: %s\n", record + 1);
        exit(125);
    }
    size_t size = strlen(record);
    if (*record == 'g' && digests_size + size < sizeof(digests)) {
        snprintf(digests + digests_size, sizeof(digests) - digests_size, " %s", record + 1);
        digests_size += size;
    }
}

/* Wait for the end of the report, and return the pid of the process that is ready. A record may come in
 * two pieces. */
static pid_t read_report(int fd)
{
    static char data[1 << 22];
    size_t size = 0, heard = 0;
    for (;;) {
        char control[CMSG_SPACE(sizeof(struct ucred))] __attribute__((aligned(8)));
        struct iovec iov = {data + size, sizeof(data) - size};
        struct msghdr message = {
            .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
        ssize_t n = recvmsg(fd, &message, 0);
        if (n < 0)
            die("read the report");
        if (n == 0)
            break;
        size += (size_t)n;
        for (const char *end; (end = memchr(data + heard, '\0', size - heard)) != NULL;) {
            const char *record = data + heard;
            heard = (size_t)(end - data) + 1;
            hear(record);
            /* Nothing traces the process here, so there is no record of system calls. */
            if (*record == 'q' && write(fd, "00000000", 8) != 8)
                die("answer the probe");
            const struct cmsghdr *from = CMSG_FIRSTHDR(&message);
            if (*record == 'r' && from != NULL) {
                struct ucred sender;
                memcpy(&sender, CMSG_DATA(from), sizeof(sender));
                return sender.pid;
            }
        }
    }
    errno = ECONNRESET;
    die("the builder ended");
}

/* Start the interpreter with the order (runtime/warm/agent/bootstrap.py) and wait for its report. *parent
 * is the first process. */
static pid_t run_interpreter(char **command, const char *order, pid_t *parent)
{
    int sockets[2], on = 1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0 ||
        setsockopt(sockets[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
        die("prepare");
    /* Move it out of the range of the streams, one of which may be closed. */
    int ours = fcntl(sockets[0], F_DUPFD_CLOEXEC, 50), theirs = fcntl(sockets[1], F_DUPFD_CLOEXEC, 50);
    close(sockets[0]);
    close(sockets[1]);
    *parent = fork();
    if (*parent == 0)
        execute_interpreter(command, theirs);
    close(theirs);
    if (write(ours, order, strlen(order)) != (ssize_t)strlen(order))
        die("let the imports begin");
    return read_report(ours);
}

/* Inherit the processes that the process leaves running. */
static void end_process(pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) != pid)
        die("wait for the builder");
}

/* Make one system call of the stopped process. Its program counter is behind a syscall instruction. */
static uint64_t call(pid_t pid, const struct user_regs_struct *at, uint64_t number, uint64_t a, uint64_t b,
                     uint64_t c)
{
    struct user_regs_struct regs = *at;
    regs.rip -= 2;
    regs.rax = number;
    regs.orig_rax = UINT64_MAX;
    regs.rdi = a;
    regs.rsi = b;
    regs.rdx = c;
    regs.r10 = MAP_PRIVATE | MAP_ANONYMOUS; /* for mmap, as are the two below; other calls ignore them */
    regs.r8 = UINT64_MAX;
    regs.r9 = 0;
    int status;
    if (ptrace(PTRACE_SETREGS, pid, NULL, &regs) < 0 || ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0 ||
        waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) ||
        ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
        die("make a system call in the builder");
    return regs.rax;
}

/* Copy strings and the pointers to them, at `at` in a block that will be at `base`. Return the end of
 * both. */
static size_t put_texts(unsigned char *block, uint64_t base, size_t at, char *const *texts, uint64_t count)
{
    size_t end = at + (count + 1) * sizeof(uint64_t);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t address = base + end;
        memcpy(block + at + i * sizeof(address), &address, sizeof(address));
        size_t size = strlen(texts[i]) + 1;
        memcpy(block + end, texts[i], size);
        end += size;
    }
    return (end + 7) & ~(size_t)7;
}

static uint64_t count_of(char *const *texts)
{
    uint64_t n = 0;
    while (texts[n] != NULL)
        n++;
    return n;
}

static size_t make_block(unsigned char *block, uint64_t base, size_t size, char **argv,
                         const struct command_line *line)
{
    struct warm_params params = {.magic = WARM_PARAMS_MAGIC, .area = base, .area_size = size};
    params.argc = count_of(argv);
    params.envc = count_of(environ);
    params.argv = base + sizeof(params);
    size_t end = put_texts(block, base, sizeof(params), argv, params.argc);
    params.envp = base + end;
    end = put_texts(block, base, end, environ, params.envc);
    params.program = line->program;
    params.program_index = line->program_index;
    if (getrandom(params.entropy, sizeof(params.entropy), 0) != sizeof(params.entropy))
        die("getrandom");
    memcpy(block, &params, sizeof(params));
    return end;
}

static void wake(pid_t pid, char **argv, const struct command_line *line)
{
    static unsigned char block[4 << 20];
    struct user_regs_struct regs = {0};
    int status;
    if (ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) < 0)
        die("trace the builder");
    for (;;) { /* its last message comes before it sleeps */
        if (ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0 || waitpid(pid, &status, 0) != pid ||
            !WIFSTOPPED(status) || ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
            die("stop the builder");
        if (regs.orig_rax == SYS_ppoll)
            break;
        if (ptrace(PTRACE_CONT, pid, NULL, NULL) < 0)
            die("continue the builder");
        usleep(1000);
    }
    uint64_t base = call(pid, &regs, SYS_mmap, 0, sizeof(block), PROT_READ | PROT_WRITE);
    struct iovec from = {block, make_block(block, base, sizeof(block), argv, line)};
    struct iovec to = {(void *)base, from.iov_len};
    if (process_vm_writev(pid, &from, 1, &to, 1, 0) != (ssize_t)from.iov_len)
        die("write the parameters");
    for (uint64_t fd = 0; fd < 3; fd++)
        call(pid, &regs, closed[fd] ? SYS_close : SYS_dup2, closed[fd] ? fd : KEPT + fd, fd, 0);
    call(pid, &regs, SYS_fchdir, KEPT_CWD, 0, 0);
    call(pid, &regs, SYS_close_range, 3, ~0U, 0);
    regs.rax = base;
    regs.orig_rax = UINT64_MAX;
    if (ptrace(PTRACE_SETREGS, pid, NULL, &regs) < 0 || ptrace(PTRACE_CONT, pid, NULL, NULL) < 0)
        die("wake the builder up");
}

/* Wait for its end, and make sure that the agent does not start cold, which would look correct. */
static int follow(pid_t pid)
{
    for (;;) {
        int status;
        if (waitpid(pid, &status, 0) != pid)
            die("wait for the program");
        if (!WIFSTOPPED(status))
            return status;
        int event = status >> 16, sig = WSTOPSIG(status);
        if (event == PTRACE_EVENT_EXEC) {
            fprintf(stderr, "wake: the agent gave up, and executed the interpreter\n");
            exit(125);
        }
        if (event == PTRACE_EVENT_STOP && sig != SIGTRAP)
            ptrace(PTRACE_LISTEN, pid, NULL, NULL); /* stopped by a signal */
        else
            ptrace(PTRACE_CONT, pid, NULL, event != 0 ? 0 : sig);
    }
}

/* End like the program. */
static _Noreturn void pass_on(int status)
{
    if (WIFSIGNALED(status)) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    exit(WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
    look_at_streams();
    struct arena a = {0};
    char **python = argv + 1;
    size_t modules = 0;
    for (; *python != NULL && strncmp(*python, "--import=", 9) == 0; python++)
        modules++;
    struct command_line line;
    const char *reason = *python == NULL ? "usage: wake [--import=MODULE]... PYTHON [ARGUMENT]..."
                                         : command_line_parse(&a, python, false, &line);
    if (reason != NULL) {
        fprintf(stderr, "wake: %s\n", reason);
        return 125;
    }

    char **command = ARENA_ARRAY(&a, (size_t)argc + 8, char *);
    size_t n = 0;
    command[n++] = python[0];
    for (size_t i = 0; i < line.option_count; i++)
        command[n++] = (char *)line.options[i];
    command[n++] = "-c";
    command[n++] = (char *)agent_bootstrap;
    command[n++] = (char *)agent_path(&a);
    command[n++] = "0";
    for (size_t i = 0; i < modules; i++)
        command[n++] = argv[1 + i] + 9;

    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        die("prepare");
    pid_t parent;
    run_interpreter(command, "s\n", &parent);
    end_process(parent);
    char *order = arena_printf(&a, "t%s\n", digests);
    pid_t pid = run_interpreter(command, order, &parent);
    end_process(parent);
    wake(pid, python, &line);
    pass_on(follow(pid));
}
