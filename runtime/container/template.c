/* The template: its life, its report. A process of its own makes it, for whoever makes a
 * container changes its standard streams, its signals and its network namespace. */
#include "container/template.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/libraries.h"
#include "base/proc.h"
#include "base/str.h"
#include "container/create.h"
#include "container/delete.h"
#include "container/sync.h"
#include "container/template_spec.h"
#include "container/template_state.h"

/* A report names every file of every module; pandas needs 200 KiB. */
#define REPORT_MAX ((size_t)8 * 1024 * 1024)

/* An id names a directory, and it may name a scope of systemd: "pysbx-ID.scope". */
#define TEMPLATE_ID_MAX (NAME_MAX - 12)
#define TEMPLATE_SUFFIX ":template"

/* No container can be called so, for it has a colon: record_check_id. What is cut off is still told apart, by
 * a hash of the whole; and as the colons are two then, it is no other container's name with the suffix. */
const char *template_id(struct arena *a, const char *id)
{
    char hash[HASH_NAME_SIZE];
    size_t size = strlen(id), end = strlen(TEMPLATE_SUFFIX);
    if (size + end <= TEMPLATE_ID_MAX)
        return arena_printf(a, "%s" TEMPLATE_SUFFIX, id);
    hash_name(hash_bytes(id, size), hash);
    return arena_printf(a, "%.*s:%s" TEMPLATE_SUFFIX, (int)(TEMPLATE_ID_MAX - end - HASH_NAME_SIZE), id,
                        hash);
}

/* The report. */

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* One piece of the report; *pid is the sender's, as the kernel says. Its size, 0 at the end, or negative
 * errno. */
static ssize_t receive_piece(int fd, void *buf, size_t size, pid_t *pid)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec iov = {buf, size};
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    ssize_t n = RETRY(recvmsg(fd, &message, MSG_CMSG_CLOEXEC));
    if (n < 0)
        return -errno;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) {
        struct ucred credentials;
        memcpy(&credentials, CMSG_DATA(c), sizeof(credentials));
        *pid = credentials.pid;
    }
    return n;
}

/* The start of the last complete record in the text, NULL if there is none. */
static const char *last_record(const char *data, size_t size)
{
    if (size == 0 || data[size - 1] != '\0')
        return NULL;
    size_t start = size - 1;
    while (start > 0 && data[start - 1] != '\0')
        start--;
    return data + start;
}

/* Names of modules are shorter (warm/decide.c). */
#define MODULE_MAX 256

/* The interpreter says which module it is about to import, "i" and the name, and nothing else before it has
 * imported all. Takes such records from the front of a piece that it sent, for the kernel never glues what
 * two processes have written (unix(7), SO_PASSCRED); the last one stays in `module`. What is left of the
 * piece, in bytes. */
static size_t take_progress(char *piece, size_t size, char module[static MODULE_MAX])
{
    size_t taken = 0;
    while (taken < size && piece[taken] == 'i') {
        size_t length = strnlen(piece + taken, size - taken);
        snprintf(module, MODULE_MAX, "%.*s", (int)length - 1, piece + taken + 1);
        taken += length < size - taken ? length + 1 : length;
    }
    memmove(piece, piece + taken, size - taken);
    return size - taken;
}

/* What the interpreter was about when it was last heard of. */
static const char *stage(struct arena *a, const char *module)
{
    return module[0] != '\0' ? arena_printf(a, "import %s", str_printable(a, module))
                             : "start of the interpreter";
}

/* The report has ended before its time: how did the interpreter? */
static int explain_end(struct creation *c, const char *module, struct error *err)
{
    siginfo_t info = {0};
    struct pollfd p = {.fd = c->pidfd, .events = POLLIN};
    const char *during = stage(&c->arena, module);
    /* It may have closed the report and live. */
    if (RETRY(poll(&p, 1, 1000)) <= 0 ||
        waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
        return error_text(err, -ECONNRESET, "%s: the interpreter closed its standard input", during);
    if (info.si_code == CLD_EXITED)
        return error_text(err, -ECONNRESET, "%s: the interpreter ended with exit code %d", during,
                          info.si_status);
    return error_text(err, -ECONNRESET, "%s: the interpreter was killed by signal %d (%s)", during,
                      info.si_status, strsignal(info.si_status));
}

/* The rehearsal says "w" and nothing else; it is of use, but not needed. */
static bool is_rehearsal(const char *piece, size_t size)
{
    return size == 2 && piece[0] == 'w' && piece[1] == '\0';
}

/* How long the rehearsal is waited for, in milliseconds. */
#define REHEARSAL_MS 100

static void await_rehearsal(int fd, struct template_report *report)
{
    char piece[2];
    pid_t pid = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (report->rehearsal == 0 && RETRY(poll(&p, 1, REHEARSAL_MS)) > 0 &&
        receive_piece(fd, piece, sizeof(piece), &pid) == sizeof(piece) && is_rehearsal(piece, sizeof(piece)))
        report->rehearsal = pid;
}

/* Read until the interpreter is ready or has failed. */
static int read_report(struct creation *c, int fd, unsigned timeout, struct template_report *out, pid_t *pid,
                       struct error *err)
{
    char *data = arena_alloc(&c->arena, REPORT_MAX), module[MODULE_MAX] = "";
    pid_t rehearsal = 0;
    size_t size = 0;
    uint64_t end = now_ms() + (uint64_t)timeout * 1000;
    for (;;) {
        uint64_t now = now_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = now >= end ? 0 : RETRY(poll(&p, 1, (int)(end - now)));
        if (ready == 0)
            return error_text(err, -ETIMEDOUT, "%s: not finished after %u seconds of all imports",
                              stage(&c->arena, module), timeout);
        ssize_t n = size == REPORT_MAX ? -EFBIG : receive_piece(fd, data + size, REPORT_MAX - size, pid);
        /* The end too: of one that has not read what it was sent (attend). */
        if (n == 0 || n == -ECONNRESET)
            return explain_end(c, module, err);
        if (n < 0)
            return error_set(err, (int)n, "read the template's report");
        if (is_rehearsal(data + size, (size_t)n)) {
            rehearsal = *pid;
            continue;
        }
        size += *pid == c->record.pid ? take_progress(data + size, (size_t)n, module) : (size_t)n;
        const char *last = last_record(data, size);
        if (last != NULL && *last == 'x')
            return error_text(err, -ENOEXEC, "%s", str_printable(&c->arena, last + 1));
        if (last != NULL && *last == 'r') {
            *out = (struct template_report){.data = data, .size = size, .rehearsal = rehearsal};
            await_rehearsal(fd, out);
            return 0;
        }
    }
}

/* The builder: a process that makes the template and takes it away. */

/* The process that has reported may be of another pid namespace, or have ended, and its number be another's
 * by now: of whom nothing may be looked at. `init` is the directory of the template's first process, which is
 * not waited for as yet. */
static int check_place(int init, int dir, pid_t pid, struct stat *pid_namespace, struct error *err)
{
    if (fstatat(init, "ns/pid", pid_namespace, 0) < 0)
        return error_set(err, -errno, "look at the template's pid namespace");
    int inside = proc_in_pid_namespace(dir, pid_namespace);
    if (inside < 0)
        return error_set(err, inside, "look at the pid namespace of process %d", (int)pid);
    return inside ? 0 : error_text(err, -ESRCH, "process %d is none of the template's", (int)pid);
}

/* `state` is that of the first process, `init` its directory, from before the imports. */
static int take_template(struct creation *c, const struct template_request *r, int report, int init,
                         const char *state, template_taker *take, void *arg, struct error *err)
{
    struct template_report said;
    pid_t pid = 0;
    int ret = read_report(c, report, r->timeout, &said, &pid, err);
    if (ret < 0)
        return ret;
    cleanup_fd int dir = proc_open_process(pid, err);
    if (dir < 0)
        return dir;
    ret = check_place(init, dir, pid, &said.pid_namespace, err);
    if (ret == 0)
        ret = template_state_compare(&c->arena, state, dir, pid, err);
    if (ret < 0)
        return ret;
    cleanup_fd int root = openat(dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_set(err, -errno, "open the template's root");
    return take(arg, pid, root, &said, err);
}

/* The template is made and runs: until it has reported. */
static int attend(struct creation *c, const struct template_request *r, int report, template_taker *take,
                  void *arg, struct error *err)
{
    const char *state = NULL;
    cleanup_fd int init = proc_open_process(c->record.pid, err);
    int ret = init < 0 ? init : template_state_read(&c->arena, init, c->record.pid, &state, err);
    /* A process that has ended already is in no directory. */
    if (ret == -ENOENT || ret == -ESRCH)
        return explain_end(c, "", err);
    if (ret < 0)
        return ret;
    /* The imports wait for this, for they may change the process. An end of it is explained by take_template.
     */
    (void)!send(report, "g", 1, MSG_NOSIGNAL);
    return take_template(c, r, report, init, state, take, arg, err);
}

static int build(const struct template_request *r, int report, template_taker *take, void *arg,
                 struct error *err)
{
    struct arena a = {0};
    struct creation c;
    struct error later = {0};
    const struct plan *plan = r->plan;
    struct plan_source source = {.bundle = plan->bundle,
                                 .config = plan->config,
                                 .config_size = plan->config_size,
                                 .spec = template_spec(&a, r)};
    struct create_options options = {.id = template_id(&a, r->options->id),
                                     .no_pivot = r->options->no_pivot,
                                     .no_new_keyring = r->options->no_new_keyring,
                                     .detach = true,
                                     .die_with_runtime = true,
                                     .landlock_allow = TEMPLATE_AGENT_PATH};
    /* What a killed runtime left under this name. */
    template_delete(r->rt, options.id);
    int ret = creation_make_from(r->rt, &options, &source, CREATION_RUNS, &c, err);
    if (ret == 0) {
        /* The template has it now; its end is to be noticed. */
        dup2(STDOUT_FILENO, TEMPLATE_REPORT_FD);
        ret = attend(&c, r, report, take, arg, err);
        if (delete_recorded(c.root, c.dir, &c.record, &later) < 0 && ret == 0) {
            *err = later;
            ret = later.code;
        }
        creation_release(&c);
    }
    arena_free(&a);
    return ret;
}

/* The template's standard streams: it speaks on the first, the others say nothing; the second is what the
 * agent makes standard input for (prepare_streams of resume.py). */
static int put_streams(int report, struct error *err)
{
    cleanup_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(report, TEMPLATE_REPORT_FD) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        dup2(null, STDERR_FILENO) < 0)
        return error_set(err, -errno, "prepare the template's standard streams");
    return 0;
}

static _Noreturn void builder_main(const struct template_request *r, int channel, template_taker *take,
                                   void *arg)
{
    struct error err = {0};
    int sockets[2] = {-1, -1}, on = 1, ret = 0;
    libraries_settle();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0 ||
        setsockopt(sockets[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
        ret = error_set(&err, -errno, "make a socket for the template's report");
    if (ret == 0)
        ret = put_streams(sockets[1], &err);
    fd_close(&sockets[1]);
    if (ret == 0)
        ret = build(r, sockets[0], take, arg, &err);
    if (ret < 0)
        sync_send_error(channel, &err);
    _exit(ret < 0);
}

int template_run(const struct template_request *request, template_taker *take, void *arg, struct error *err)
{
    int channel[2];
    int ret = sync_pair(channel, err);
    if (ret < 0)
        return ret;
    cleanup_fd int ours = channel[0];
    cleanup_fd int theirs = channel[1];
    pid_t pid = fork();
    if (pid < 0)
        return error_set(err, -errno, "fork the builder of the template");
    if (pid == 0) {
        fd_close(&ours);
        builder_main(request, theirs, take, arg);
    }
    fd_close(&theirs);
    int message = sync_receive(ours, err), status = 0;
    if (RETRY(waitpid(pid, &status, 0)) < 0)
        return error_set(err, -errno, "wait for the builder of the template");
    if (message == SYNC_ERROR)
        return err->code;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return error_text(err, -ECONNRESET, "the builder of the template was killed");
    return 0;
}
