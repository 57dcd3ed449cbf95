/* Probe and template: their life, their report. A process of its own makes them, for making a container
 * changes the standard streams, the signals and the network namespace of its maker. */
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
#include "base/sys.h"
#include "container/create.h"
#include "container/delete.h"
#include "container/sync.h"
#include "container/template_needs.h"
#include "container/template_report.h"
#include "container/template_spec.h"
#include "container/template_state.h"
#include "warm/observe/observe.h"
#include "warm/params.h"

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

/* How long the rehearsal is waited for, in milliseconds. */
#define REHEARSAL_MS 100

static void await_rehearsal(int fd, struct template_report *report)
{
    char piece[2];
    pid_t pid = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (report->rehearsal == 0 && RETRY(poll(&p, 1, REHEARSAL_MS)) > 0 &&
        receive_piece(fd, piece, sizeof(piece), &pid) == sizeof(piece) &&
        template_report_is_rehearsal(piece, sizeof(piece)))
        report->rehearsal = pid;
}

/* A process that makes a report. */
struct speaker {
    struct creation *creation;
    int report; /* our end of its standard input */
    uint64_t end;
    unsigned timeout; /* seconds, of which `end` is the end */
    struct template_report_text text;
    const char *trace; /* what the observer has noted */
    size_t trace_size;
};

static int too_late(struct speaker *s, struct error *err)
{
    return error_text(err, -ETIMEDOUT, "%s: not finished after %u seconds of all imports",
                      stage(&s->creation->arena, s->text.module), s->timeout);
}

/* Wait until there is something to read; meanwhile the system calls of a probe are let go on. */
static int await_piece(struct speaker *s, struct error *err)
{
    struct creation *c = s->creation;
    for (;;) {
        uint64_t now = now_ms();
        struct pollfd p[] = {{.fd = s->report, .events = POLLIN}, {.fd = c->listener, .events = POLLIN}};
        int ready = now >= s->end ? 0 : poll(p, 2, (int)(s->end - now));
        if (ready < 0 && errno != EINTR)
            return error_set(err, -errno, "wait for the template's report");
        if (ready == 0)
            return too_late(s, err);
        if (ready > 0 && p[0].revents != 0)
            return 0;
        int ret = ready > 0 && (p[1].revents & POLLIN) != 0 ? observer_serve(c->observer, err) : 0;
        if (ret < 0)
            return ret;
        if (ready > 0 && (p[1].revents & (POLLHUP | POLLERR)) != 0)
            fd_close(&c->listener); /* all its processes have ended: the report ends as well */
    }
}

/* The answer to "q": eight hexadecimal digits, so many bytes of the observer's records. */
static int send_trace(struct speaker *s, struct error *err)
{
    char size[9];
    if (s->creation->observer != NULL)
        observer_stop(s->creation->observer, &s->trace, &s->trace_size);
    snprintf(size, sizeof(size), "%08zx", s->trace_size);
    const struct {
        const char *data;
        size_t size;
    } parts[] = {{size, 8}, {s->trace, s->trace_size}};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        for (size_t sent = 0; sent < parts[i].size;) {
            ssize_t n = RETRY(send(s->report, parts[i].data + sent, parts[i].size - sent, MSG_NOSIGNAL));
            if (n < 0)
                return errno == EAGAIN ? too_late(s, err) : error_set(err, -errno, "send to the probe");
            sent += (size_t)n;
        }
    return 0;
}

/* Read until the interpreter is ready or has failed. */
static int read_report(struct speaker *s, struct template_report *out, pid_t *pid, struct error *err)
{
    struct creation *c = s->creation;
    s->text = (struct template_report_text){.data = arena_alloc(&c->arena, TEMPLATE_REPORT_MAX)};
    pid_t rehearsal = 0;
    for (;;) {
        int ret = await_piece(s, err);
        if (ret < 0)
            return ret;
        size_t room = TEMPLATE_REPORT_MAX - s->text.size;
        ssize_t n = room == 0 ? -EFBIG : receive_piece(s->report, s->text.data + s->text.size, room, pid);
        /* The end too: of one that has not read what it was sent. */
        if (n == 0 || n == -ECONNRESET)
            return explain_end(c, s->text.module, err);
        if (n < 0)
            return error_set(err, (int)n, "read the template's report");
        enum template_report_state state = template_report_take(&s->text, (size_t)n);
        if (state == TEMPLATE_REPORT_REHEARSAL)
            rehearsal = *pid;
        if (state == TEMPLATE_REPORT_ASKS && (ret = send_trace(s, err)) < 0)
            return ret;
        if (state == TEMPLATE_REPORT_FAILED)
            return error_text(err, -ENOEXEC, "%s",
                              str_printable(&c->arena, template_report_reason(&s->text)));
        if (state == TEMPLATE_REPORT_READY) {
            *out =
                (struct template_report){.data = s->text.data, .size = s->text.size, .rehearsal = rehearsal};
            return 0;
        }
    }
}

/* The builder: a process that makes the two containers and removes them. */

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

/* Open the process that has reported and its root. */
static int open_speaker(int init, pid_t pid, struct template_report *said, int *dir, int *root,
                        struct error *err)
{
    *dir = proc_open_process(pid, err);
    if (*dir < 0)
        return *dir;
    int ret = check_place(init, *dir, pid, &said->pid_namespace, err);
    if (ret < 0)
        return ret;
    *root = openat(*dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return *root < 0 ? error_set(err, -errno, "open the template's root") : 0;
}

/* The container is made and its interpreter runs: give it the order (agent/bootstrap.py), wait until it has
 * reported, and let the taker have it. The imports wait for the order, for they may change the process. */
static int attend(struct speaker *s, const char *order, const struct template_taker *taker,
                  struct template_report *said, struct error *err)
{
    struct creation *c = s->creation;
    const char *state = NULL;
    pid_t pid = 0;
    bool probe = order[0] == 's';
    cleanup_fd int dir = -1, root = -1;
    cleanup_fd int init = proc_open_process(c->record.pid, err);
    int ret = init < 0 ? init : template_state_read(&c->arena, init, c->record.pid, &state, err);
    /* A process that has ended already is in no directory. */
    if (ret == -ENOENT || ret == -ESRCH)
        return explain_end(c, "", err);
    if (ret < 0)
        return ret;
    /* An end of it is explained by what follows. */
    (void)!send(s->report, order, strlen(order), MSG_NOSIGNAL);
    ret = read_report(s, said, &pid, err);
    if (ret == 0 && !probe)
        await_rehearsal(s->report, said);
    if (ret == 0)
        ret = open_speaker(init, pid, said, &dir, &root, err);
    if (ret == 0 && probe)
        return taker->probed(taker->arg, root, said, err);
    if (ret == 0)
        ret = template_state_compare(&c->arena, state, dir, pid, err);
    return ret < 0 ? ret : taker->take(taker->arg, pid, root, said, err);
}

/* The standard streams of the container that is made next: it speaks on the first, the others say nothing;
 * the second is what the agent makes standard input for (prepare_streams of resume.py). *report is our end; a
 * process that does not read what it asked for is waited for as long as for its report. */
static int put_streams(int *report, unsigned timeout, struct error *err)
{
    int sockets[2], on = 1;
    const struct timeval patience = {.tv_sec = timeout};
    cleanup_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
        return error_set(err, -errno, "make a socket for the template's report");
    *report = sockets[0];
    cleanup_fd int theirs = sockets[1];
    if (setsockopt(*report, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
        setsockopt(*report, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 || null < 0 ||
        dup2(theirs, TEMPLATE_REPORT_FD) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        dup2(null, STDERR_FILENO) < 0)
        return error_set(err, -errno, "prepare the template's standard streams");
    return 0;
}

/* One of the two containers, from its making to its removal. *said and what it points to live in `a`, for the
 * container's own arena ends with it. */
static int run_container(struct arena *a, const struct template_request *r,
                         const struct template_needs *needs, const struct template_taker *taker,
                         struct template_report *said, struct error *err)
{
    struct creation c;
    struct error later = {0};
    const struct plan *plan = r->plan;
    struct plan_source source = {.bundle = plan->bundle,
                                 .config = plan->config,
                                 .config_size = plan->config_size,
                                 .spec = template_spec(a, r, needs)};
    struct create_options options = {.id = template_id(a, r->options->id),
                                     .no_pivot = r->options->no_pivot,
                                     .no_new_keyring = false,
                                     .detach = true,
                                     .die_with_runtime = true,
                                     .landlock_allow = WARM_AGENT_PATH,
                                     .observe = needs == NULL         ? OBSERVE_PROBE
                                                : needs->reads_mounts ? OBSERVE_TEMPLATE
                                                                      : OBSERVE_NOT};
    const char *order = needs == NULL ? "s\n" : arena_printf(a, "t%s\n", needs->digests);
    cleanup_fd int report = -1;
    int ret = put_streams(&report, r->timeout, err);
    if (ret < 0)
        return ret;
    ret = creation_make_from(r->rt, &options, &source, CREATION_RUNS, &c, err);
    if (ret < 0)
        return ret;
    /* The interpreter has its own copy; the end of that one must be noticed. */
    dup2(STDOUT_FILENO, TEMPLATE_REPORT_FD);
    struct speaker speaker = {.creation = &c,
                              .report = report,
                              .timeout = r->timeout,
                              .end = now_ms() + (uint64_t)r->timeout * 1000};
    ret = attend(&speaker, order, taker, said, err);
    if (ret == 0 && said->size > 0) {
        char *copy = arena_alloc(a, said->size);
        memcpy(copy, said->data, said->size);
        said->data = copy;
    }
    if (delete_recorded(c.root, c.dir, &c.record, &later) < 0 && ret == 0) {
        *err = later;
        ret = later.code;
    }
    creation_release(&c);
    return ret;
}

static int build(const struct template_request *r, const struct template_taker *taker, struct error *err)
{
    struct arena a = {0};
    struct template_report said = {0};
    struct template_needs needs;
    /* What a killed runtime left under this name. */
    template_delete(r->rt, template_id(&a, r->options->id));
    int ret = run_container(&a, r, NULL, taker, &said, err);
    if (ret == 0) {
        template_needs_read(&a, said.data, said.size, &needs);
        ret = run_container(&a, r, &needs, taker, &said, err);
    }
    arena_free(&a);
    return ret;
}

static _Noreturn void builder_main(const struct template_request *r, int channel,
                                   const struct template_taker *taker)
{
    struct error err = {0};
    libraries_settle();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int ret = build(r, taker, &err);
    if (ret < 0)
        sync_send_error(channel, &err);
    _exit(ret < 0);
}

int template_run(const struct template_request *request, const struct template_taker *taker,
                 struct error *err)
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
        builder_main(request, theirs, taker);
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
