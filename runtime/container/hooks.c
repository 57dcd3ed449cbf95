/* OCI hooks: start them with the state on standard input, and wait for them with their timeout. */
#include "container/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/json_out.h"
#include "base/log.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/sys.h"
#include "container/process.h"
#include "container/record.h"
#include "spec/annotations.h"

/* Write the state to a memory file. Every hook reads it from the start, and a hook that never reads cannot
 * block the runtime. */
static int state_file(const struct hook_run *run, const struct record *record, struct error *err)
{
    cleanup_json_out struct json_out *out = json_out_new(false);
    record_write_state(record, run->status, run->pid, false, out);
    size_t size;
    const char *text = json_out_text(out, &size);
    cleanup_fd int fd = memfd_create("state", MFD_CLOEXEC);
    int ret = text == NULL ? -ENOMEM : fd < 0 ? -errno : io_write_full(fd, text, size);
    if (ret < 0)
        return error_set(err, ret, "%s hooks: write the container's state", run->kind);
    return fd_steal(&fd);
}

/* Open a file that takes the output of hooks. If the hook is a program of the container, the path is resolved
 * in the container. A link that the image contains must not lead through a descriptor of this process. */
static int open_output(const struct hook_run *run, const struct record *record, const char *key)
{
    const char *path = str_map_get(&record->annotations, key);
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY;
    if (path == NULL || path[0] == '\0')
        return -1;
    return run->environment != NULL ? path_open_no_magic(path, flags, 0700) : open(path, flags, 0700);
}

/* In the process of a hook with an SELinux label, replace the state by a pipe. The policy denies it the
 * runtime's memory files, and the hook would find nothing on standard input. Pipes are allowed, because
 * standard streams of any program can be pipes. */
static int state_pipe(int state)
{
    struct stat st;
    int ends[2];
    if (fstat(state, &st) < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    bool fits = fcntl(ends[1], F_SETPIPE_SZ, (int)st.st_size) >= st.st_size &&
                sendfile(ends[1], state, NULL, (size_t)st.st_size) == st.st_size;
    close(ends[1]);
    if (fits)
        return ends[0];
    close(ends[0]);
    return -1;
}

/* In the hook's process: become the hook. Descriptor 0 is the state, at its first byte. Hooks of a list run
 * one after the other, so they can share the file's offset. */
static _Noreturn void become_hook(const struct spec_hook *hook, const struct hook_run *run, int state,
                                  int out, int errfd)
{
    if (hook->timeout.set)
        setpgid(0, 0);
    if (lseek(state, 0, SEEK_SET) < 0)
        _exit(126);
    int piped = run->labelled ? state_pipe(state) : -1;
    if (dup2(piped >= 0 ? piped : state, STDIN_FILENO) < 0)
        _exit(126);
    if ((out >= 0 && dup2(out, STDOUT_FILENO) < 0) || (errfd >= 0 && dup2(errfd, STDERR_FILENO) < 0))
        _exit(126);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    sys_close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    if (run->cwd != NULL && chdir(run->cwd) < 0)
        dprintf(STDERR_FILENO, "pysbx-runtime: hook '%s': change to '%s': %s\n", hook->path, run->cwd,
                strerror(errno));
    static char *const no_arguments[] = {NULL};
    char *own_name[] = {(char *)(uintptr_t)hook->path, NULL};
    char **argv = hook->args.count > 0 ? (char **)(uintptr_t)hook->args.items : own_name;
    /* Only the hook's own env. Without one, it gets the runtime's environment, as with other runtimes. */
    char *const *env = hook->has_env
                           ? (hook->env.count > 0 ? (char *const *)(uintptr_t)hook->env.items : no_arguments)
                       : run->environment != NULL ? run->environment
                                                  : environ;
    struct error err = {0};
    if (run->confine != NULL && process_confine_hook(run->confine, &err) < 0) {
        dprintf(STDERR_FILENO, "it cannot be confined: %s\n", err.text);
        _exit(126);
    }
    execve(hook->path, argv, env);
    dprintf(STDERR_FILENO, "it cannot be executed: %s\n", error_reason(errno));
    _exit(127);
}

static int64_t hooks_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Wait for the end of the hook, at most for its timeout. Then its process group ends: a hook that is a shell
 * script has children, which would go on after the container was given up. Without a timeout, the hook stays
 * in the runtime's group, which a terminal interrupts. */
static int wait_hook(pid_t pid, const struct spec_hook *hook, int *status)
{
    if (hook->timeout.set) {
        cleanup_fd int pidfd = sys_pidfd_open(pid, 0);
        int64_t deadline = hooks_now_ms() + hook->timeout.value * 1000;
        struct pollfd p = {.fd = pidfd, .events = POLLIN};
        int n;
        do {
            int64_t left = deadline - hooks_now_ms();
            n = poll(&p, 1, left > 0 ? (left < INT32_MAX ? (int)left : INT32_MAX) : 0);
        } while ((n < 0 && errno == EINTR) || (n == 0 && hooks_now_ms() < deadline));
        if (n == 0) {
            kill(-pid, SIGKILL);
            kill(pid, SIGKILL); /* it has not set its group yet, if it did not run at all */
            RETRY(waitpid(pid, status, 0));
            return -ETIMEDOUT;
        }
    }
    return RETRY(waitpid(pid, status, 0)) < 0 ? -errno : 0;
}

/* Write the last line of the hook on standard error into out. It says best why the hook failed, and engines
 * show only the runtime's error. */
static void last_words(int captured, char *out, size_t size)
{
    char text[512];
    struct stat st;
    out[0] = '\0';
    if (captured < 0 || fstat(captured, &st) < 0)
        return;
    off_t from = st.st_size > (off_t)sizeof(text) - 1 ? st.st_size - (off_t)sizeof(text) + 1 : 0;
    ssize_t n = RETRY(pread(captured, text, sizeof(text) - 1, from));
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    if (n <= 0)
        return;
    text[n] = '\0';
    const char *line = strrchr(text, '\n');
    snprintf(out, size, ": %.*s", (int)size - 4, line != NULL ? line + 1 : text);
}

/* Pass on the standard error of a hook that succeeded. */
static void pass_on(int captured)
{
    char text[4096];
    off_t at = 0;
    for (ssize_t n; captured >= 0 && (n = RETRY(pread(captured, text, sizeof(text), at))) > 0; at += n)
        if (io_write_full(STDERR_FILENO, text, (size_t)n) < 0)
            return;
}

static int hooks_judge(const struct spec_hook *hook, size_t index, const char *kind, int status, int captured,
                       struct error *err)
{
    char words[ERROR_TEXT_MAX / 2];
    if (status == 0) {
        pass_on(captured);
        return 0;
    }
    last_words(captured, words, sizeof(words));
    if (WIFSIGNALED(status))
        return error_text(err, -ECANCELED, "hooks.%s[%zu]: '%s' was killed by signal %d%s", kind, index,
                          hook->path, WTERMSIG(status), words);
    return error_text(err, -ECANCELED, "hooks.%s[%zu]: '%s' failed with exit status %d%s", kind, index,
                      hook->path, WEXITSTATUS(status), words);
}

static int run_one(const struct spec_hook *hook, size_t index, const struct hook_run *run,
                   const struct record *record, int state, struct error *err)
{
    cleanup_fd int out = open_output(run, record, ANNOTATION_HOOKS_STDOUT);
    cleanup_fd int errfd = open_output(run, record, ANNOTATION_HOOKS_STDERR);
    cleanup_fd int captured = errfd < 0 && !run->labelled ? memfd_create("hook", MFD_CLOEXEC) : -1;
    pid_t pid = fork();
    if (pid < 0)
        return error_set(err, -errno, "hooks.%s[%zu]: start '%s'", run->kind, index, hook->path);
    if (pid == 0)
        become_hook(hook, run, state, out, errfd < 0 ? captured : errfd);
    int status = 0;
    int ret = wait_hook(pid, hook, &status);
    if (ret == -ETIMEDOUT)
        return error_text(err, ret, "hooks.%s[%zu]: '%s' did not end within its timeout of %lld s", run->kind,
                          index, hook->path, (long long)hook->timeout.value);
    if (ret < 0)
        return error_set(err, ret, "hooks.%s[%zu]: wait for '%s'", run->kind, index, hook->path);
    return hooks_judge(hook, index, run->kind, status, captured, err);
}

int hooks_run(const struct spec_hook_list *hooks, const struct hook_run *run, const struct record *record,
              struct error *err)
{
    if (hooks->count == 0)
        return 0;
    cleanup_fd int state = state_file(run, record, err);
    int ret = state < 0 ? state : 0;
    for (size_t i = 0; i < hooks->count && ret == 0; i++)
        ret = run_one(&hooks->items[i], i, run, record, state, err);
    return ret;
}

pid_t hooks_own_pid(void)
{
    char text[24] = "";
    int root = proc_root(NULL);
    ssize_t n = root < 0 ? -1 : readlinkat(root, "self", text, sizeof(text) - 1);
    return n > 0 ? (pid_t)atoi(text) : 0;
}

void hooks_run_all(const struct spec_hook_list *hooks, const struct hook_run *run,
                   const struct record *record)
{
    struct error err = {0};
    if (hooks->count == 0)
        return;
    cleanup_fd int state = state_file(run, record, &err);
    if (state < 0) {
        log_notice("%s", err.text);
        return;
    }
    for (size_t i = 0; i < hooks->count; i++)
        if (run_one(&hooks->items[i], i, run, record, state, &err) < 0)
            log_notice("%s", err.text);
}
