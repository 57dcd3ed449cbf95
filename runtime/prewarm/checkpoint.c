/* Save the program of a container for another one (`checkpoint`), and continue it (`restore`). The program
 * waits in the agent's park(), forks when it is asked to, and the fork is saved. So a container that cannot
 * be saved goes on as it was: ptrace(2), pid_namespaces(7). */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/sys.h"
#include "container/lifecycle.h"
#include "container/lookup.h"
#include "container/record_copies.h"
#include "prewarm/commands.h"
#include "prewarm/criu_statistics.h"
#include "prewarm/decide.h"
#include "warm/config.h"
#include "warm/image.h"
#include "warm/session.h"

/* Milliseconds in which a killed process ends. */
#define END_TIME 10000

struct subject {
    struct arena arena;
    struct record record;
    struct image image;
    int dir;
    bool paused;
    int pidfd, proc;           /* its first process, and the directory of that in /proc */
    int fork_pidfd, fork_proc; /* the fork that is saved */
    pid_t fork;
};

static bool has_ended(int pidfd, int milliseconds)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return RETRY(poll(&p, 1, milliseconds)) != 0;
}

/* The program goes on when its fork has ended. */
static void end_fork(struct subject *s)
{
    if (s->fork_pidfd >= 0 && sys_pidfd_send_signal(s->fork_pidfd, SIGKILL, NULL, 0) == 0)
        (void)has_ended(s->fork_pidfd, END_TIME);
    fd_close(&s->fork_proc);
    fd_close(&s->fork_pidfd);
}

static void checkpoint_subject_close(struct subject *s)
{
    image_abandon(&s->image);
    end_fork(s);
    fd_close(&s->proc);
    fd_close(&s->pidfd);
    fd_close(&s->dir);
    arena_free(&s->arena);
}

/* Find the container's program, and lock the record, so that it is not deleted meanwhile. */
static int find_program(struct subject *s, const struct runtime_options *rt, const char *id,
                        struct error *err)
{
    int ret = container_open_record(&s->arena, rt, id, &s->dir, &s->record, err);
    if (ret < 0)
        return ret;
    ret = record_lock(s->dir, id, err);
    if (ret < 0)
        return ret;
    enum status status = record_status(s->dir, &s->record);
    s->paused = status == STATUS_PAUSED;
    if (status != STATUS_RUNNING && !s->paused)
        return error_text(err, -EINVAL, "it is %s", status_name(status));
    if (s->record.has_init)
        return error_text(err, -ENOTSUP, "its first process is an init, and the program another one");
    if ((s->record.namespaces & CLONE_NEWPID) == 0)
        return error_text(err, -ENOTSUP, "it has no pid namespace of its own");
    s->pidfd = record_pidfd(&s->record);
    s->proc = s->pidfd < 0 ? s->pidfd : proc_open_process(s->record.pid, err);
    if (s->pidfd < 0)
        return error_set(err, s->pidfd, "its first process");
    return s->proc < 0 ? s->proc : 0;
}

/* Refuse other processes of the container that live: those that `exec` has started have another parent. */
static int refuse_processes(const struct subject *s, struct error *err)
{
    struct stat ns;
    struct proc_stat stat;
    struct error ignored = {0};
    char comm[64];
    if (fstatat(s->proc, "ns/pid", &ns, 0) < 0)
        return error_set(err, -errno, "look at its pid namespace");
    cleanup_fd int fd = proc_open(".", O_RDONLY | O_DIRECTORY, err);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL)
        return fd < 0 ? fd : error_set(err, -errno, "list '/proc'");
    (void)fd_steal(&fd);
    int ret = 0;
    for (const struct dirent *entry; ret == 0 && (entry = readdir(dir)) != NULL;) {
        pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)strtol(entry->d_name, NULL, 10) : 0;
        if (pid == 0 || pid == s->record.pid)
            continue;
        cleanup_fd int proc = proc_open_process(pid, &ignored);
        if (proc < 0 || proc_in_pid_namespace(proc, &ns) != 1 || proc_read_stat(pid, &stat) < 0 ||
            stat.state == 'Z' || stat.state == 'X')
            continue;
        if (io_read_small_at(proc, "comm", comm, sizeof(comm)) < 0)
            comm[0] = '\0';
        ret = error_text(err, -ENOTSUP, "process %d (%s) is running besides its program: end it", (int)pid,
                         comm);
    }
    closedir(dir);
    return ret;
}

/* Refuse files in a tmpfs of the container, which ends with it. A tmpfs that the engine has made and binds,
 * such as Podman's /dev/shm, is the engine's, and /dev is made anew. */
static int refuse_tmpfs(struct subject *s, struct error *err)
{
    struct spec *spec;
    int ret = saved_spec(&s->arena, s->dir, &s->record, &spec, err);
    if (ret < 0)
        return ret;
    cleanup_fd int root = openat(s->proc, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_set(err, -errno, "open its root");
    for (size_t i = 0; ret == 0 && i < spec->mounts.count; i++) {
        const struct spec_mount *mount = &spec->mounts.items[i];
        if (!str_eq(mount->type, "tmpfs") || spec_mount_is_bind(mount) || str_eq(mount->destination, "/dev"))
            continue;
        int fd = path_open_in_root(root, mount->destination, O_RDONLY | O_DIRECTORY, 0);
        DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
        if (dir == NULL) {
            ret = error_set(err, fd < 0 ? fd : -errno, "list its tmpfs '%s'", mount->destination);
            fd_close(&fd);
            continue;
        }
        for (const struct dirent *entry; ret == 0 && (entry = readdir(dir)) != NULL;)
            if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
                ret = error_text(err, -ENOTSUP,
                                 "its tmpfs '%s' has files (%s), which would be lost: remove them",
                                 mount->destination, entry->d_name);
        closedir(dir);
    }
    return ret;
}

/* Ask the program for a fork, and check that it is one of the container: its number may be another's by now.
 */
static int take_fork(struct subject *s, struct error *err)
{
    struct stat ns;
    int ret = session_fork(s->record.pid, &s->fork, err);
    if (s->fork == 0)
        return ret;
    s->fork_pidfd = sys_pidfd_open(s->fork, 0);
    s->fork_proc = s->fork_pidfd < 0 ? -1 : proc_open_process(s->fork, err);
    if (s->fork_proc >= 0 && fstatat(s->proc, "ns/pid", &ns, 0) == 0 &&
        proc_in_pid_namespace(s->fork_proc, &ns) == 1)
        return ret;
    fd_close(&s->fork_pidfd);
    return error_text(err, -ESRCH, "its fork has ended");
}

static int save_fork(struct subject *s, struct error *err)
{
    struct warm_config config;
    int root_of_host = prewarm_root_of_host(err);
    int ret = root_of_host < 0 ? root_of_host : warm_config_read(&s->arena, NULL, root_of_host, &config, err);
    if (ret < 0)
        return ret;
    cleanup_fd int root = openat(s->fork_proc, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_set(err, -errno, "open its root");
    ret = session_save(s->fork, root, config.max_size, NULL, s->image.file, err);
    /* If the fork still lives, its number was not used by another process meanwhile. */
    return ret == 0 && has_ended(s->fork_pidfd, 0) ? error_text(err, -ESRCH, "its fork has ended") : ret;
}

/* End the container, whose program still waits for its fork. */
static int stop(const struct subject *s, struct error *err)
{
    if (sys_pidfd_send_signal(s->pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
        return error_set(err, -errno, "it is saved, but cannot be killed");
    return has_ended(s->pidfd, END_TIME) ? 0 : error_text(err, -ETIMEDOUT, "it is saved, but does not end");
}

static int checkpoint(struct subject *s, const struct runtime_options *rt,
                      const struct checkpoint_options *options, struct error *err)
{
    int ret = refuse_processes(s, err);
    if (ret < 0)
        return ret;
    ret = refuse_tmpfs(s, err);
    if (ret < 0)
        return ret;
    ret = image_create(options->image_path, &s->image, err);
    if (ret < 0)
        return ret;
    uint64_t statistics[DUMP_FIELDS] = {0}, begun = criu_statistics_time();
    struct stat st = {0};
    ret = take_fork(s, err);
    if (ret < 0)
        return ret;
    statistics[DUMP_FREEZING] = criu_statistics_time() - begun;
    ret = save_fork(s, err);
    if (ret < 0)
        return ret;
    (void)fstat(s->image.file, &st);
    ret = image_finish(&s->image, options->id, rt->version, err);
    statistics[DUMP_FROZEN] = criu_statistics_time() - begun;
    statistics[DUMP_MEMWRITE] = statistics[DUMP_FROZEN] - statistics[DUMP_FREEZING];
    statistics[DUMP_WRITTEN] = (uint64_t)st.st_size / (uint64_t)sysconf(_SC_PAGESIZE);
    if (ret == 0)
        criu_statistics_write(options->work_path, CRIU_DUMP, statistics, DUMP_FIELDS);
    return ret < 0 || options->leave_running ? ret : stop(s, err);
}

/* containerd pauses a container first, but only a program that runs can fork. So it goes on meanwhile. It
 * waits in park() all the time, unless an event ends that. */
static int checkpoint_paused(struct subject *s, const struct runtime_options *rt,
                             const struct checkpoint_options *options, struct error *err)
{
    struct error later = {0};
    int ret = container_resume(rt, options->id, err);
    if (ret == 0)
        ret = checkpoint(s, rt, options, err);
    if (ret == 0 && !options->leave_running)
        return 0;
    end_fork(s);
    int paused = container_pause(rt, options->id, &later);
    if (ret < 0 || paused == 0)
        return ret;
    *err = later;
    return paused;
}

int prewarm_checkpoint(const struct runtime_options *rt, const struct checkpoint_options *options,
                       struct error *err)
{
    __attribute__((cleanup(checkpoint_subject_close))) struct subject s = {.image = {.dir = -1, .file = -1},
                                                                           .dir = -1,
                                                                           .pidfd = -1,
                                                                           .proc = -1,
                                                                           .fork_pidfd = -1,
                                                                           .fork_proc = -1};
    int ret = find_program(&s, rt, options->id, err);
    if (ret == 0)
        ret = s.paused ? checkpoint_paused(&s, rt, options, err) : checkpoint(&s, rt, options, err);
    return ret < 0 ? error_wrap(err, "checkpoint of container '%s'", options->id) : 0;
}

int prewarm_restore(const struct runtime_options *rt, const struct create_options *options,
                    const char *image_path, const char *work_path, int *exit_code, struct error *err)
{
    cleanup_arena struct arena arena = {0};
    struct create_options create = *options;
    uint64_t statistics[RESTORE_FIELDS] = {0}, begun = criu_statistics_time();
    int ret = image_open(&arena, image_path, &create.snapshot, err);
    if (ret < 0)
        return error_wrap(err, "restore of container '%s'", options->id);
    ret = prewarm_run(rt, &create, exit_code, err);
    statistics[RESTORE_TIME] = criu_statistics_time() - begun;
    if (ret == 0 && options->detach)
        criu_statistics_write(work_path, CRIU_RESTORE, statistics, RESTORE_FIELDS);
    return ret;
}
