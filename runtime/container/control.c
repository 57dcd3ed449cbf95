/* The commands kill, pause, resume, update, ps and events. They read the state record, never config.json. */
#include <errno.h>
#include <signal.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/json_out.h"
#include "base/sys.h"
#include "container/lifecycle.h"
#include "container/lookup.h"
#include "spec/spec.h"

/* A container that a command has looked up, until the command ends. */
struct subject {
    struct arena arena;
    struct record record;
    int dir;
};

static int subject_open(const struct runtime_options *rt, const char *id, struct subject *s,
                        struct error *err)
{
    *s = (struct subject){.dir = -1};
    return container_open_record(&s->arena, rt, id, &s->dir, &s->record, err);
}

static void control_subject_close(struct subject *s)
{
    fd_close(&s->dir);
    arena_free(&s->arena);
}

#define cleanup_subject __attribute__((cleanup(control_subject_close)))

/* Engines look for this phrase when a process is already gone. */
static int not_running(const char *id, struct error *err)
{
    return error_text(err, -ESRCH, "container not running: '%s' has no process any more", id);
}

int container_kill(const struct runtime_options *rt, const char *id, int sig, bool all, struct error *err)
{
    cleanup_subject struct subject s;
    int ret = subject_open(rt, id, &s, err);
    if (ret < 0)
        return ret;
    if (all && s.record.cgroup.manager != CGROUP_MANAGER_DISABLED)
        return cgroup_kill(&s.record.cgroup, sig, err);
    /* Without a cgroup, the processes that init leaves behind in a shared pid namespace cannot be told from
     * others. */
    cleanup_fd int pidfd = record_program(&s.record);
    if (pidfd == -ESRCH)
        return all ? 0 : not_running(id, err);
    if (pidfd < 0)
        return error_set(err, pidfd, "find the process of container '%s'", id);
    if (sys_pidfd_send_signal(pidfd, sig, NULL, 0) < 0 && !(all && errno == ESRCH))
        return errno == ESRCH ? not_running(id, err)
                              : error_set(err, -errno, "send signal %d to container '%s'", sig, id);
    bool rest = sig == SIGKILL && s.record.shares_pids && s.record.cgroup.manager != CGROUP_MANAGER_DISABLED;
    return rest ? cgroup_kill(&s.record.cgroup, sig, err) : 0;
}

/* Refuse a container that is stopped or being created: the command needs a cgroup and processes. */
static int need_running(struct subject *s, const char *what, struct error *err)
{
    enum status status = record_status(s->dir, &s->record);
    if (status == STATUS_STOPPED || status == STATUS_CREATING)
        return error_text(err, -ESRCH, "cannot %s container '%s': it is %s", what, s->record.id,
                          status_name(status));
    if (s->record.cgroup.manager == CGROUP_MANAGER_DISABLED)
        return error_text(err, -ENOTSUP, "cannot %s container '%s': it was created without a cgroup", what,
                          s->record.id);
    return 0;
}

int container_pause(const struct runtime_options *rt, const char *id, struct error *err)
{
    cleanup_subject struct subject s;
    int ret = subject_open(rt, id, &s, err);
    if (ret == 0)
        ret = need_running(&s, "pause", err);
    if (ret == 0 && record_status(s.dir, &s.record) == STATUS_PAUSED)
        return error_text(err, -EALREADY, "container '%s' is paused already", id);
    return ret < 0 ? ret : cgroup_freeze(&s.record.cgroup, err);
}

int container_resume(const struct runtime_options *rt, const char *id, struct error *err)
{
    cleanup_subject struct subject s;
    int ret = subject_open(rt, id, &s, err);
    if (ret == 0)
        ret = need_running(&s, "resume", err);
    if (ret == 0 && record_status(s.dir, &s.record) != STATUS_PAUSED)
        return error_text(err, -EINVAL, "container '%s' is not paused", id);
    return ret < 0 ? ret : cgroup_thaw(&s.record.cgroup, err);
}

int container_update(const struct runtime_options *rt, const char *id, const struct spec_resources *resources,
                     struct error *err)
{
    cleanup_subject struct subject s;
    int ret = subject_open(rt, id, &s, err);
    if (ret == 0)
        ret = need_running(&s, "update", err);
    return ret < 0 ? ret : cgroup_update(&s.arena, &s.record.cgroup, resources, err);
}

int container_pids(struct arena *a, const struct runtime_options *rt, const char *id, pid_t **pids,
                   size_t *count, struct error *err)
{
    cleanup_subject struct subject s;
    int ret = subject_open(rt, id, &s, err);
    if (ret < 0)
        return ret;
    if (s.record.cgroup.manager != CGROUP_MANAGER_DISABLED) {
        ret = cgroup_pids(a, &s.record.cgroup, pids, count, err);
        return ret == -ENOENT ? not_running(id, err) : ret;
    }
    cleanup_fd int pidfd = record_pidfd(&s.record);
    if (pidfd < 0)
        return not_running(id, err);
    *pids = ARENA_NEW(a, pid_t);
    **pids = s.record.pid;
    *count = 1;
    return 0;
}

int container_stats(const struct runtime_options *rt, const char *id, struct json_out *out, struct error *err)
{
    cleanup_subject struct subject s;
    int ret = subject_open(rt, id, &s, err);
    if (ret == 0)
        ret = need_running(&s, "read statistics of", err);
    if (ret < 0)
        return ret;
    json_out_map_open(out);
    json_out_pair_string(out, "type", "stats");
    json_out_pair_string(out, "id", id);
    json_out_key(out, "data");
    ret = cgroup_stats(&s.record.cgroup, out, err);
    json_out_map_close(out);
    return ret;
}
