/* Scopes of systemd: org.freedesktop.systemd1(5). */
#include "cgroup/systemd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "cgroup/detect.h"
#include "cgroup/fs.h"
#include "cgroup/systemd_bus.h"
#include "cgroup/systemd_properties.h"
#include "cgroup/tree.h"
#include "cgroup/types.h"

/* Handle "Cannot set property CPUAccounting, or unknown property.": mark the named property as omitted, and
 * return whether that was possible. The container can start with an older systemd without the property,
 * because the value is also written to the file of its own cgroup. */
static bool drop_unknown(const struct systemd_properties *properties, bool *dropped, const char *message)
{
    const char *name = str_after(message, "Cannot set property ");
    bool found = false;
    for (size_t i = 0; name != NULL && i < properties->count; i++) {
        const struct systemd_property *p = &properties->items[i];
        size_t length = strlen(p->name);
        if (dropped[i] || strncmp(name, p->name, length) != 0 || name[length] != ',')
            continue;
        if (p->required)
            return false;
        found = dropped[i] = true;
        log_debug("systemd does not know property '%s': left out", p->name);
    }
    return found;
}

/* A failed unit stays loaded and keeps its name until it is reset. */
static int reset_failed(sd_bus *bus, const char *scope, struct systemd_job *job)
{
    cleanup_message sd_bus_message *m = NULL;
    int ret = systemd_call_new(bus, "ResetFailedUnit", &m);
    if (ret < 0)
        return ret;
    ret = bus_api.append(m, "s", scope);
    if (ret < 0)
        return ret;
    ret = systemd_call(bus, m, job);
    return ret < 0 && systemd_is_no_such_unit(job) ? 0 : ret;
}

struct cgroup_job {
    const struct cgroup_plan *plan;
    pid_t pid;
    sd_bus *bus;
    struct systemd_job state;
    bool was_reset;
    bool dropped[]; /* one for each of the plan's properties */
};

static void free_job(struct cgroup_job **job)
{
    if (*job == NULL)
        return;
    systemd_bus_unref(&(*job)->bus);
    free(*job);
    *job = NULL;
}
#define cleanup_job __attribute__((cleanup(free_job)))

static int request_scope(struct cgroup_job *job)
{
    cleanup_message sd_bus_message *m = NULL;
    int ret = systemd_call_new(job->bus, "StartTransientUnit", &m);
    if (ret < 0)
        return ret;
    ret = bus_api.append(m, "ss", job->plan->ref.scope, "fail");
    if (ret < 0)
        return ret;
    ret = systemd_append_properties(m, job->plan->properties, job->dropped, job->pid);
    if (ret < 0)
        return ret;
    ret = bus_api.append(m, "a(sa(sv))", 0);
    return ret < 0 ? ret : systemd_job_queue(job->bus, m, &job->state);
}

int cgroup_systemd_attach_begin(const struct cgroup_plan *plan, pid_t pid, struct cgroup_job **out,
                                struct error *err)
{
    cleanup_job struct cgroup_job *job = calloc(1, sizeof(*job) + plan->properties->count * sizeof(bool));
    if (job == NULL)
        return error_set(err, -ENOMEM, "start scope '%s'", plan->ref.scope);
    job->plan = plan;
    job->pid = pid;
    int ret = systemd_bus_open(plan->ref.user_bus, &job->bus, err);
    if (ret < 0)
        return ret;
    /* The match is sent first, so that the end of the job cannot be missed. */
    ret = systemd_jobs_watch(job->bus, &job->state);
    if (ret >= 0)
        ret = request_scope(job);
    if (ret < 0)
        return error_set(err, ret, "ask systemd to start scope '%s'", plan->ref.scope);
    *out = job;
    job = NULL;
    return 0;
}

/* Correct the request if possible, and send it again. */
static int answer_refusal(struct cgroup_job *job, struct error *err)
{
    const char *scope = job->plan->ref.scope;
    struct systemd_job reset;
    bool exists = strcmp(job->state.error_name, "org.freedesktop.systemd1.UnitExists") == 0;
    int ret = exists ? -EEXIST : -EPROTO;
    if (exists && !job->was_reset) {
        job->was_reset = true;
        ret = reset_failed(job->bus, scope, &reset);
    } else if (drop_unknown(job->plan->properties, job->dropped, job->state.error_message)) {
        ret = 0;
    }
    if (ret < 0)
        return error_text(err, ret, "systemd refuses to start scope '%s': %s", scope,
                          job->state.error_message);
    ret = request_scope(job);
    return ret < 0 ? error_set(err, ret, "ask systemd to start scope '%s'", scope) : 0;
}

static int wait_for_scope(struct cgroup_job *job, struct error *err)
{
    for (;;) {
        int ret = systemd_job_wait(job->bus, &job->state);
        if (ret < 0)
            return error_set(err, ret, "wait for systemd to start scope '%s'", job->plan->ref.scope);
        if (!job->state.refused)
            break;
        ret = answer_refusal(job, err);
        if (ret < 0)
            return ret;
    }
    if (strcmp(job->state.result, "done") != 0)
        return error_text(err, -EPROTO, "systemd could not start scope '%s': job result '%s'",
                          job->plan->ref.scope, job->state.result);
    return 0;
}

/* Return the length of the part of the path that is the scope's own cgroup, or 0 if the path is not in the
 * scope. */
static size_t scope_length(const char *path, const char *scope)
{
    size_t length = strlen(scope);
    for (const char *p = path; (p = strstr(p, scope)) != NULL; p++)
        if (p > path && p[-1] == '/' && (p[length] == '/' || p[length] == '\0'))
            return (size_t)(p - path) + length;
    return 0;
}

static int enter_subgroup(const struct cgroup_job *job, char path[PATH_MAX], size_t top, struct error *err)
{
    const struct cgroup_plan *plan = job->plan;
    path[top] = '\0';
    if (plan->subgroup[0] != '\0') {
        cleanup_fd int scope = cgroup_tree_open(plan->ref.mount, path);
        if (scope < 0)
            return error_set(err, scope, "open cgroup '%s'", path);
        if (top + strlen(plan->subgroup) + 2 > PATH_MAX)
            return error_set(err, -ENAMETOOLONG, "make cgroup '%s/%s'", path, plan->subgroup);
        snprintf(path + top, PATH_MAX - top, "/%s", plan->subgroup);
        if (mkdirat(scope, plan->subgroup, 0755) < 0 && errno != EEXIST)
            return error_set(err, -errno, "make cgroup '%s'", path);
    }
    cleanup_fd int dirfd = cgroup_tree_open(plan->ref.mount, path);
    if (dirfd < 0)
        return error_set(err, dirfd, "open cgroup '%s'", path);
    char pid[16];
    snprintf(pid, sizeof(pid), "%d", (int)job->pid);
    int ret = plan->subgroup[0] != '\0' ? io_write_value_at(dirfd, "cgroup.procs", pid) : 0;
    if (ret < 0)
        return error_set(err, ret, "move process %s to cgroup '%s'", pid, path);
    /* This has to be last: a cgroup that has processes itself cannot enable controllers for its children. A
     * privileged runtime enables them from the root, because systemd passes on only the controllers that it
     * knows, without hugetlb. */
    return cgroup_fs_configure(plan, path, plan->ref.rootless ? top : 0, dirfd, err);
}

int cgroup_systemd_attach_finish(struct cgroup_job *job_, char path[PATH_MAX], struct error *err)
{
    cleanup_job struct cgroup_job *job = job_;
    int ret = wait_for_scope(job, err);
    if (ret < 0)
        return ret;
    ret = cgroup_detect_path(job->pid, path, err);
    if (ret < 0)
        return ret;
    size_t top = scope_length(path, job->plan->ref.scope);
    if (top == 0)
        return error_text(err, -EPROTO, "systemd has started scope '%s', but process %d is in cgroup '%s'",
                          job->plan->ref.scope, (int)job->pid, path);
    return enter_subgroup(job, path, top, err);
}

static int stop_scope(sd_bus *bus, const char *scope, struct systemd_job *job)
{
    cleanup_message sd_bus_message *m = NULL;
    int ret = systemd_jobs_watch(bus, job);
    if (ret < 0)
        return ret;
    ret = systemd_call_new(bus, "StopUnit", &m);
    if (ret < 0)
        return ret;
    ret = bus_api.append(m, "ss", scope, "replace");
    if (ret < 0)
        return ret;
    ret = systemd_job_queue(bus, m, job);
    if (ret < 0)
        return ret;
    ret = systemd_job_wait(bus, job);
    if (ret < 0 || !job->refused || systemd_is_no_such_unit(job))
        return ret;
    return -EPROTO;
}

/* Stop the scope and forget a failure of it. */
static int end_scope(const struct cgroup_ref *ref, struct error *err)
{
    cleanup_bus sd_bus *bus = NULL;
    struct systemd_job job = {0};
    int ret = systemd_bus_open(ref->user_bus, &bus, err);
    if (ret < 0)
        return ret;
    ret = stop_scope(bus, ref->scope, &job);
    if (ret >= 0)
        ret = reset_failed(bus, ref->scope, &job);
    return ret < 0 ? error_text(err, ret, "%s", job.refused ? job.error_message : error_reason(ret)) : 0;
}

int cgroup_systemd_destroy(const struct cgroup_ref *ref, struct error *err)
{
    char path[PATH_MAX];
    size_t top = scope_length(ref->path, ref->scope);
    snprintf(path, sizeof(path), "%.*s", (int)top, ref->path);
    struct cgroup_ref scope = *ref;
    scope.path = path;
    /* Kill the processes first. systemd would ask them to end, and wait. */
    int ret = cgroup_fs_empty(&scope, err);
    if (ret < 0)
        return ret;
    /* systemd removes the cgroup of a scope after the last process has ended, and then the scope
     * (CollectMode). To load the library and ask systemd would cost more than everything else. */
    cleanup_fd int left = cgroup_tree_open(ref->mount, path);
    if (left == -ENOENT)
        return 0;
    struct error refused = {0};
    ret = end_scope(ref, &refused);
    /* A unit without processes ends by itself. If systemd cannot be reached (it may be gone as well), that is
     * no reason to keep the container. */
    if (ret < 0)
        log_warning("stop scope '%s': %s", ref->scope, refused.text);
    return cgroup_fs_destroy(&scope, err);
}

static int request_change(sd_bus *bus, const struct cgroup_ref *ref,
                          const struct systemd_properties *properties, const bool *dropped,
                          struct systemd_job *job)
{
    cleanup_message sd_bus_message *m = NULL;
    int ret = systemd_call_new(bus, "SetUnitProperties", &m);
    if (ret < 0)
        return ret;
    ret = bus_api.append(m, "sb", ref->scope, 1); /* until the unit ends */
    if (ret < 0)
        return ret;
    ret = systemd_append_properties(m, properties, dropped, 0);
    return ret < 0 ? ret : systemd_call(bus, m, job);
}

int cgroup_systemd_update(const struct cgroup_ref *ref, const struct systemd_properties *properties,
                          struct error *err)
{
    if (properties->count == 0)
        return 0;
    cleanup_bus sd_bus *bus = NULL;
    int ret = systemd_bus_open(ref->user_bus, &bus, err);
    if (ret < 0)
        return ret;
    cleanup_free bool *dropped = calloc(properties->count, sizeof(bool));
    if (dropped == NULL)
        return error_set(err, -ENOMEM, "change scope '%s'", ref->scope);
    for (;;) {
        struct systemd_job job = {0};
        ret = request_change(bus, ref, properties, dropped, &job);
        if (ret >= 0)
            return 0;
        if (!job.refused || !drop_unknown(properties, dropped, job.error_message))
            return error_text(err, ret, "systemd refuses to change scope '%s': %s", ref->scope,
                              job.refused ? job.error_message : error_reason(ret));
    }
}

static int request_move(sd_bus *bus, const struct cgroup_ref *ref, const char *path, pid_t pid,
                        struct systemd_job *job)
{
    cleanup_message sd_bus_message *m = NULL;
    int ret = systemd_call_new(bus, "AttachProcessesToUnit", &m);
    if (ret < 0)
        return ret;
    const char *below = path + scope_length(path, ref->scope);
    ret = bus_api.append(m, "ssau", ref->scope, below, 1, (uint32_t)pid);
    return ret < 0 ? ret : systemd_call(bus, m, job);
}

int cgroup_systemd_move(const struct cgroup_ref *ref, const char *path, pid_t pid, struct error *err)
{
    cleanup_bus sd_bus *bus = NULL;
    int ret = systemd_bus_open(ref->user_bus, &bus, err);
    if (ret < 0)
        return ret;
    struct systemd_job job = {0};
    ret = request_move(bus, ref, path, pid, &job);
    if (ret < 0)
        return error_text(err, ret, "systemd refuses to move process %d to scope '%s': %s", (int)pid,
                          ref->scope, job.refused ? job.error_message : error_reason(ret));
    return 0;
}
