/* Save a process of a container that has parked itself, for another container to continue from (`warm save`).
 * The caller names the process, and the runtime checks that it belongs to the container: pidfd_open(2),
 * pid_namespaces(7). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/proc.h"
#include "base/sys.h"
#include "container/lookup.h"
#include "prewarm/commands.h"
#include "prewarm/decide.h"
#include "warm/config.h"
#include "warm/session.h"

struct subject {
    struct arena arena;
    struct record record;
    int dir;
    int pidfd; /* the parked process */
    int proc;  /* its directory in /proc */
};

static void save_subject_close(struct subject *s)
{
    fd_close(&s->proc);
    fd_close(&s->pidfd);
    fd_close(&s->dir);
    arena_free(&s->arena);
}

static bool has_ended(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return RETRY(poll(&p, 1, 0)) != 0;
}

/* Check that the process belongs to the container: it is in the container's own pid namespace, which no other
 * container has. */
static int check_membership(const struct subject *s, pid_t pid, struct error *err)
{
    struct stat ns;
    if ((s->record.namespaces & CLONE_NEWPID) == 0)
        return error_text(err, -ENOTSUP, "container '%s' has no pid namespace of its own", s->record.id);
    cleanup_fd int init = record_pidfd(&s->record);
    cleanup_fd int proc = init < 0 ? -1 : proc_open_process(s->record.pid, err);
    if (init >= 0 && proc < 0)
        return proc;
    if (init < 0 || has_ended(init))
        return error_text(err, -ESRCH, "container not running: '%s'", s->record.id);
    if (fstatat(proc, "ns/pid", &ns, 0) < 0)
        return error_set(err, -errno, "look at the pid namespace of container '%s'", s->record.id);
    int inside = proc_in_pid_namespace(s->proc, &ns);
    if (inside < 0)
        return error_set(err, inside, "look at the pid namespace of process %d", (int)pid);
    if (inside)
        return 0;
    return error_text(err, -ESRCH, "process %d is not one of container '%s'", (int)pid, s->record.id);
}

static int save_find(struct subject *s, const struct runtime_options *rt, const struct save_options *options,
                     struct error *err)
{
    int ret = container_open_record(&s->arena, rt, options->id, &s->dir, &s->record, err);
    if (ret < 0)
        return ret;
    s->pidfd = sys_pidfd_open(options->pid, 0);
    if (s->pidfd < 0)
        return error_set(err, -errno, "process %d", (int)options->pid);
    s->proc = proc_open_process(options->pid, err);
    return s->proc < 0 ? s->proc : check_membership(s, options->pid, err);
}

int prewarm_save(const struct runtime_options *rt, const struct save_options *options, struct error *err)
{
    __attribute__((cleanup(save_subject_close))) struct subject s = {.dir = -1, .pidfd = -1, .proc = -1};
    struct warm_config config;
    int ret = save_find(&s, rt, options, err);
    int root_of_host = ret == 0 ? prewarm_root_of_host(err) : ret;
    ret = root_of_host < 0 ? root_of_host : warm_config_read(&s.arena, NULL, root_of_host, &config, err);
    if (ret < 0)
        return ret;
    cleanup_fd int root = openat(s.proc, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_set(err, -errno, "open the root of process %d", (int)options->pid);
    cleanup_fd int out = session_create(options->file, err);
    if (out < 0)
        return out;
    (void)signal(SIGXFSZ, SIG_IGN); /* the caller's RLIMIT_FSIZE is an error then: setrlimit(2) */
    ret = session_save(options->pid, root, config.max_size, out, err);
    /* If the process still lives, its number was not used by another one meanwhile. */
    if (ret == 0 && has_ended(s.pidfd)) {
        (void)!ftruncate(out, 0);
        ret = error_text(err, -ESRCH, "process %d ended", (int)options->pid);
    }
    return ret;
}
