/* The life of probe and builder, and their report. A forked process creates them, because their creation
 * changes the creator's standard streams, signals and network namespace. */
#include "prewarm/builder.h"

#include <errno.h>
#include <fcntl.h>
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
#include "base/libraries.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/sys.h"
#include "container/create.h"
#include "container/delete.h"
#include "container/sync.h"
#include "prewarm/builder_needs.h"
#include "prewarm/builder_report.h"
#include "prewarm/builder_state.h"
#include "prewarm/observed.h"
#include "prewarm/start.h"
#include "warm/observe/observe.h"
#include "warm/params.h"

/* The report. */

static uint64_t builder_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Receive one piece of the report. *pid is the sender, as the kernel names it. Return its size, 0 at the end,
 * or a negative errno. */
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

/* Return the last step that the interpreter has announced. */
static const char *stage(struct arena *a, const char *module)
{
    return module[0] != '\0' ? arena_printf(a, "import %s", str_printable(a, module))
                             : "start of the interpreter";
}

/* The report has ended too early. Explain how the interpreter ended. */
static int builder_explain_end(struct creation *c, const char *module, struct error *err)
{
    siginfo_t info = {0};
    struct pollfd p = {.fd = c->pidfd, .events = POLLIN};
    const char *during = stage(&c->arena, module);
    /* The interpreter may have closed the report and still run. */
    if (RETRY(poll(&p, 1, 1000)) <= 0 ||
        waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
        return error_text(err, -ECONNRESET, "%s: the interpreter closed its standard input", during);
    if (info.si_code == CLD_EXITED)
        return error_text(err, -ECONNRESET, "%s: the interpreter ended with exit code %d", during,
                          info.si_status);
    return error_text(err, -ECONNRESET, "%s: the interpreter was killed by signal %d (%s)", during,
                      info.si_status, strsignal(info.si_status));
}

/* Milliseconds to wait for the rehearsal. */
#define REHEARSAL_MS 100

static void await_rehearsal(int fd, struct builder_report *report)
{
    char piece[2];
    pid_t pid = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (report->rehearsal == 0 && RETRY(poll(&p, 1, REHEARSAL_MS)) > 0 &&
        receive_piece(fd, piece, sizeof(piece), &pid) == sizeof(piece) &&
        builder_report_is_rehearsal(piece, sizeof(piece)))
        report->rehearsal = pid;
}

/* An interpreter that reports. */
struct speaker {
    struct creation *creation;
    struct observed_program *observed; /* its launch, or NULL */
    int report;                        /* the runtime's end of its standard input */
    uint64_t end;
    unsigned timeout; /* seconds, which pass at `end` */
    struct builder_report_text text;
    const char *trace; /* the observer's records */
    size_t trace_size;
};

static int too_late(struct speaker *s, struct error *err)
{
    return error_text(err, -ETIMEDOUT,
                      "%s: not finished after %u seconds of all imports (template.timeout in warm.json)",
                      stage(&s->creation->arena, s->text.module), s->timeout);
}

/* Wait until the report can be read. Meanwhile serve the observed system calls. */
static int await_piece(struct speaker *s, struct error *err)
{
    int listener = s->observed != NULL ? observed_listener(s->observed) : -1;
    for (;;) {
        uint64_t now = builder_now_ms();
        struct pollfd p[] = {{.fd = s->report, .events = POLLIN}, {.fd = listener, .events = POLLIN}};
        int ready = now >= s->end ? 0 : poll(p, 2, (int)(s->end - now));
        if (ready < 0 && errno != EINTR)
            return error_set(err, -errno, "wait for the report of the builder");
        if (ready == 0)
            return too_late(s, err);
        if (ready > 0 && p[0].revents != 0)
            return 0;
        int ret = ready > 0 && (p[1].revents & POLLIN) != 0 ? observed_serve(s->observed, err) : 0;
        if (ret < 0)
            return ret;
        if (ready > 0 && (p[1].revents & (POLLHUP | POLLERR)) != 0)
            listener = -1; /* all observed processes have ended, so the report ends as well */
    }
}

/* Send the answer to "q": the size of the observer's records in eight hexadecimal digits, and then the
 * records. */
static int send_trace(struct speaker *s, struct error *err)
{
    char size[9];
    if (s->observed != NULL)
        observed_stop(s->observed, &s->trace, &s->trace_size);
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
static int read_report(struct speaker *s, struct builder_report *out, pid_t *pid, struct error *err)
{
    struct creation *c = s->creation;
    s->text = (struct builder_report_text){.data = arena_alloc(&c->arena, BUILDER_REPORT_MAX)};
    pid_t rehearsal = 0;
    for (;;) {
        int ret = await_piece(s, err);
        if (ret < 0)
            return ret;
        size_t room = BUILDER_REPORT_MAX - s->text.size;
        ssize_t n = room == 0 ? -EFBIG : receive_piece(s->report, s->text.data + s->text.size, room, pid);
        /* ECONNRESET: the interpreter ended without reading all that the runtime sent. */
        if (n == 0 || n == -ECONNRESET)
            return builder_explain_end(c, s->text.module, err);
        if (n < 0)
            return error_set(err, (int)n, "read the report of the builder");
        enum builder_report_state state = builder_report_take(&s->text, (size_t)n);
        if (state == BUILDER_REPORT_REHEARSAL)
            rehearsal = *pid;
        if (state == BUILDER_REPORT_ASKS && (ret = send_trace(s, err)) < 0)
            return ret;
        if (state == BUILDER_REPORT_FAILED)
            return error_text(err, -ENOEXEC, "%s", str_printable(&c->arena, builder_report_reason(&s->text)));
        if (state == BUILDER_REPORT_READY) {
            *out =
                (struct builder_report){.data = s->text.data, .size = s->text.size, .rehearsal = rehearsal};
            return 0;
        }
    }
}

/* The forked process, which creates the containers and deletes them. */

/* The first letter of the line that an interpreter waits for. */
enum order { ORDER_PROBE = 's', ORDER_COMPARE = 'c', ORDER_BUILD = 't' };

/* Check that the reporting process may be saved. It can be in another pid namespace. Or it has ended, and
 * another process has its number. `init` is the directory of the container's first process, which is not
 * waited for yet. */
static int check_place(int init, int dir, pid_t pid, struct stat *pid_namespace, struct error *err)
{
    if (fstatat(init, "ns/pid", pid_namespace, 0) < 0)
        return error_set(err, -errno, "look at the pid namespace of the builder");
    int inside = proc_in_pid_namespace(dir, pid_namespace);
    if (inside < 0)
        return error_set(err, inside, "look at the pid namespace of process %d", (int)pid);
    return inside ? 0 : error_text(err, -ESRCH, "process %d is not one of the builder's", (int)pid);
}

/* Open the reporting process and its root. */
static int open_speaker(int init, pid_t pid, struct builder_report *said, int *dir, int *root,
                        struct error *err)
{
    *dir = proc_open_process(pid, err);
    if (*dir < 0)
        return *dir;
    int ret = check_place(init, *dir, pid, &said->pid_namespace, err);
    if (ret < 0)
        return ret;
    *root = openat(*dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return *root < 0 ? error_set(err, -errno, "open the root of the builder") : 0;
}

/* Serve a container whose interpreter runs. Send the order (agent/bootstrap.py), wait for the report, and
 * give the process to the request, unless it is a second probe, which only compares. The imports wait for the
 * order, because they can change the process. */
static int builder_attend(struct speaker *s, const struct builder_request *r, const char *order,
                          struct builder_report *said, struct error *err)
{
    struct creation *c = s->creation;
    const char *state = NULL;
    pid_t pid = 0;
    cleanup_fd int dir = -1, root = -1;
    cleanup_fd int init = proc_open_process(c->record.pid, err);
    int ret = init < 0 ? init : builder_state_read(&c->arena, init, c->record.pid, &state, err);
    /* A process that has already ended has no directory. */
    if (ret == -ENOENT || ret == -ESRCH)
        return builder_explain_end(c, "", err);
    const struct process_plan *process = &c->plan.process;
    if (ret == 0 && process->selinux.label == NULL && process->apparmor.profile == NULL)
        ret = builder_state_label(init, err);
    if (ret < 0)
        return ret;
    /* If the interpreter has ended, the next step reports it. */
    (void)!send(s->report, order, strlen(order), MSG_NOSIGNAL);
    ret = read_report(s, said, &pid, err);
    if (ret < 0)
        return ret;
    if (order[0] == ORDER_COMPARE)
        return 0;
    if (order[0] == ORDER_BUILD)
        await_rehearsal(s->report, said);
    ret = open_speaker(init, pid, said, &dir, &root, err);
    if (ret < 0)
        return ret;
    if (order[0] == ORDER_PROBE)
        return r->probed(r->arg, root, said, err);
    ret = builder_state_compare(&c->arena, state, dir, pid, err);
    return ret < 0 ? ret : r->parked(r->arg, pid, root, said, err);
}

/* Prepare the standard streams of the next container. Standard input is for its report, and the others are
 * /dev/null. The agent copies the second to the first (prepare_streams of resume.py). *report is the
 * runtime's end. An interpreter has as much time to read the answer to its request as for its report. */
static int put_streams(int *report, unsigned timeout, struct error *err)
{
    int sockets[2], on = 1;
    const struct timeval patience = {.tv_sec = timeout};
    cleanup_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
        return error_set(err, -errno, "make a socket for the report of the builder");
    *report = sockets[0];
    cleanup_fd int theirs = sockets[1];
    if (setsockopt(*report, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
        setsockopt(*report, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 || null < 0 ||
        dup2(theirs, BUILDER_REPORT_FD) < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
        return error_set(err, -errno, "prepare the standard streams of the builder");
    return 0;
}

/* Plan one of the containers. With `observed`, a filter reports its system calls to the runtime. */
static int plan_container(const struct builder_request *r, const struct create_options *options,
                          const struct plan_source *source, struct observed_program *observed,
                          struct creation *out, struct error *err)
{
    int ret = creation_plan(r->start->rt, options, source, CREATION_RUNS, out, err);
    if (ret == 0 && observed != NULL)
        observed_launch(&out->arena, observed, &out->plan.process);
    return ret;
}

/* Delete one of the containers. */
static int builder_remove_container(struct creation *c, int ret, struct error *err)
{
    struct error later = {0};
    if (delete_recorded(c->root, c->dir, &c->record, &later) < 0 && ret == 0) {
        *err = later;
        return later.code;
    }
    return ret;
}

/* Run one of the containers, from its creation to its deletion. *said and its data live in `a`, because
 * the arena of the container ends with it. A probe has all that the container has. */
static int run_container(struct arena *a, const struct builder_request *r, enum order kind,
                         const struct builder_needs *needs, struct builder_report *said, struct error *err)
{
    const struct start *start = r->start;
    bool builds = kind == ORDER_BUILD;
    struct plan_source source = {.bundle = start->bundle,
                                 .config = start->config,
                                 .config_size = start->config_size,
                                 .spec = builder_spec(a, start, &r->program, builds ? needs : NULL)};
    struct create_options options = {.id = record_companion_id(a, start->id),
                                     .no_pivot = start->no_pivot,
                                     .detach = true,
                                     .die_with_runtime = true,
                                     .landlock_allow = WARM_AGENT_PATH};
    struct observed_program observed = {.listener = -1, .mode = builds ? OBSERVE_BUILDER : OBSERVE_PROBE};
    bool observes = kind == ORDER_PROBE || (builds && needs->reads_mounts);
    const char *digests = builds ? needs->digests : kind == ORDER_COMPARE ? needs->values : "";
    const char *order = arena_printf(a, "%c%s\n", kind, digests);
    cleanup_fd int report = -1;
    int ret = put_streams(&report, r->timeout, err);
    if (ret < 0)
        return ret;
    cleanup_creation struct creation c;
    ret = plan_container(r, &options, &source, observes ? &observed : NULL, &c, err);
    if (ret == 0)
        ret = creation_make(&c, &options, err);
    if (ret < 0)
        return ret;
    /* The interpreter has a copy of this descriptor. Replace it here, so that the end of the interpreter is
     * noticed. */
    dup2(STDOUT_FILENO, BUILDER_REPORT_FD);
    struct speaker speaker = {.creation = &c,
                              .observed = observes ? &observed : NULL,
                              .report = report,
                              .timeout = r->timeout,
                              .end = builder_now_ms() + (uint64_t)r->timeout * 1000};
    ret = builder_attend(&speaker, r, order, said, err);
    if (ret == 0 && said->size > 0) {
        char *copy = arena_alloc(a, said->size);
        memcpy(copy, said->data, said->size);
        said->data = copy;
    }
    return builder_remove_container(&c, ret, err);
}

static int build(const struct builder_request *r, struct error *err)
{
    cleanup_arena struct arena a = {0};
    struct builder_report said = {0};
    struct builder_needs needs;
    /* A killed runtime may have left a container of this name. */
    delete_quietly(r->start->rt, record_companion_id(&a, r->start->id));
    int ret = run_container(&a, r, ORDER_PROBE, NULL, &said, err);
    if (ret < 0)
        return ret;
    builder_needs_read(&a, said.data, said.size, &needs);
    if (needs.values[0] != '\0')
        ret = run_container(&a, r, ORDER_COMPARE, &needs, &said, err);
    return ret < 0 ? ret : run_container(&a, r, ORDER_BUILD, &needs, &said, err);
}

static _Noreturn void forked_main(const struct builder_request *r, pid_t parent, int channel)
{
    struct error err = {0};
    libraries_settle();
    if (sys_end_with(parent) < 0)
        _exit(1);
    int ret = build(r, &err);
    if (ret < 0)
        sync_send_error(channel, &err);
    _exit(ret < 0);
}

int builder_run(const struct builder_request *request, struct error *err)
{
    int channel[2];
    int ret = sync_pair(channel, err);
    if (ret < 0)
        return ret;
    cleanup_fd int ours = channel[0];
    cleanup_fd int theirs = channel[1];
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return error_set(err, -errno, "fork the builder of the snapshot");
    if (pid == 0) {
        fd_close(&ours);
        forked_main(request, parent, theirs);
    }
    fd_close(&theirs);
    int message = sync_receive(ours, err), status = 0;
    if (RETRY(waitpid(pid, &status, 0)) < 0)
        return error_set(err, -errno, "wait for the builder of the snapshot");
    if (message == SYNC_ERROR)
        return err->code;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    /* The forked process was killed, or ran out of memory (base/arena.h). */
    cleanup_arena struct arena a = {0};
    delete_quietly(request->start->rt, record_companion_id(&a, request->start->id));
    return error_text(err, -ECONNRESET, "the builder of the snapshot was killed");
}
