/* Scopes of systemd over D-Bus: org.freedesktop.systemd1(5). libsystemd's sd-bus(3) is loaded on first need:
 * the other managers and most commands never pay for it, and it may be absent. */
#include "cgroup/systemd.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/libraries.h"
#include "base/log.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "cgroup/detect.h"
#include "cgroup/fs.h"
#include "cgroup/systemd_properties.h"
#include "cgroup/tree.h"

#define DESTINATION "org.freedesktop.systemd1"
#define OBJECT      "/org/freedesktop/systemd1"
#define MANAGER     "org.freedesktop.systemd1.Manager"

/* A job of a busy systemd may take its time; D-Bus' own default is 25 s. */
#define TIMEOUT_MS 30000

/* The part of <systemd/sd-bus.h> that is used; its ABI is stable. */
typedef struct sd_bus sd_bus;
typedef struct sd_bus_message sd_bus_message;
typedef struct sd_bus_slot sd_bus_slot;
typedef struct {
    const char *name, *message;
    int need_free;
} sd_bus_error;
typedef int (*sd_bus_message_handler_t)(sd_bus_message *m, void *userdata, sd_bus_error *ret_error);

static struct {
    int (*open_user)(sd_bus **bus);
    int (*open_system)(sd_bus **bus);
    sd_bus *(*flush_close_unref)(sd_bus *bus);
    int (*flush)(sd_bus *bus);
    int (*process)(sd_bus *bus, sd_bus_message **m);
    int (*wait)(sd_bus *bus, uint64_t usec);
    int (*call)(sd_bus *bus, sd_bus_message *m, uint64_t usec, sd_bus_error *error, sd_bus_message **reply);
    int (*call_async)(sd_bus *bus, sd_bus_slot **slot, sd_bus_message *m, sd_bus_message_handler_t callback,
                      void *userdata, uint64_t usec);
    int (*match_signal_async)(sd_bus *bus, sd_bus_slot **slot, const char *sender, const char *path,
                              const char *interface, const char *member, sd_bus_message_handler_t match,
                              sd_bus_message_handler_t installed, void *userdata);
    int (*message_new)(sd_bus *bus, sd_bus_message **m, const char *destination, const char *path,
                       const char *interface, const char *member);
    sd_bus_message *(*message_unref)(sd_bus_message *m);
    int (*append)(sd_bus_message *m, const char *types, ...);
    int (*append_array)(sd_bus_message *m, char type, const void *data, size_t size);
    int (*append_strv)(sd_bus_message *m, char **strings);
    int (*open_container)(sd_bus_message *m, char type, const char *contents);
    int (*close_container)(sd_bus_message *m);
    int (*read)(sd_bus_message *m, const char *types, ...);
    const sd_bus_error *(*get_error)(sd_bus_message *m);
    void (*error_free)(sd_bus_error *error);
} bus_api;

static const struct {
    const char *name;
    void *function;
} bus_symbols[] = {
    {"sd_bus_open_user", &bus_api.open_user},
    {"sd_bus_open_system", &bus_api.open_system},
    {"sd_bus_flush_close_unref", &bus_api.flush_close_unref},
    {"sd_bus_flush", &bus_api.flush},
    {"sd_bus_process", &bus_api.process},
    {"sd_bus_wait", &bus_api.wait},
    {"sd_bus_call", &bus_api.call},
    {"sd_bus_call_async", &bus_api.call_async},
    {"sd_bus_match_signal_async", &bus_api.match_signal_async},
    {"sd_bus_message_new_method_call", &bus_api.message_new},
    {"sd_bus_message_unref", &bus_api.message_unref},
    {"sd_bus_message_append", &bus_api.append},
    {"sd_bus_message_append_array", &bus_api.append_array},
    {"sd_bus_message_append_strv", &bus_api.append_strv},
    {"sd_bus_message_open_container", &bus_api.open_container},
    {"sd_bus_message_close_container", &bus_api.close_container},
    {"sd_bus_message_read", &bus_api.read},
    {"sd_bus_message_get_error", &bus_api.get_error},
    {"sd_bus_error_free", &bus_api.error_free},
};

static int load_library(struct error *err)
{
    static bool loaded;
    if (loaded)
        return 0;
    int ret = libraries_require(err);
    if (ret < 0)
        return ret;
    void *library = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return error_text(err, -ENOTSUP, "the cgroup manager systemd needs libsystemd: %s", dlerror());
    for (size_t i = 0; i < sizeof(bus_symbols) / sizeof(bus_symbols[0]); i++) {
        void *symbol = dlsym(library, bus_symbols[i].name);
        if (symbol == NULL)
            return error_text(err, -ENOTSUP, "the cgroup manager systemd needs libsystemd 237 or later: %s",
                              dlerror());
        memcpy(bus_symbols[i].function, &symbol, sizeof(symbol));
    }
    loaded = true;
    return 0;
}

static void unref_bus(sd_bus **bus)
{
    if (*bus != NULL)
        bus_api.flush_close_unref(*bus);
}
#define cleanup_bus __attribute__((cleanup(unref_bus)))

static void unref_message(sd_bus_message **m)
{
    if (*m != NULL)
        bus_api.message_unref(*m);
}
#define cleanup_message __attribute__((cleanup(unref_message)))

static int open_bus(bool user, sd_bus **bus, struct error *err)
{
    int ret = load_library(err);
    if (ret < 0)
        return ret;
    ret = user ? bus_api.open_user(bus) : bus_api.open_system(bus);
    if (ret == -ENOMEDIUM && user)
        return error_text(err, ret,
                          "no D-Bus of the user: neither DBUS_SESSION_BUS_ADDRESS nor XDG_RUNTIME_DIR is set "
                          "(log in as the user, or use the cgroup manager cgroupfs)");
    return ret < 0 ? error_set(err, ret, "connect to systemd by the %s bus", user ? "user's" : "system") : 0;
}

static int new_call(sd_bus *bus, const char *method, sd_bus_message **m)
{
    return bus_api.message_new(bus, m, DESTINATION, OBJECT, MANAGER, method);
}

static int append_value(sd_bus_message *m, const struct systemd_property *p)
{
    switch (p->type) {
    case SYSTEMD_BOOLEAN:
        return bus_api.append(m, "v", "b", (int)p->number);
    case SYSTEMD_INT32:
        return bus_api.append(m, "v", "i", (int32_t)p->number);
    case SYSTEMD_UINT32:
        return bus_api.append(m, "v", "u", (uint32_t)p->number);
    case SYSTEMD_INT64:
        return bus_api.append(m, "v", "x", (int64_t)p->number);
    case SYSTEMD_UINT64:
        return bus_api.append(m, "v", "t", p->number);
    case SYSTEMD_STRING:
        return bus_api.append(m, "v", "s", p->text);
    case SYSTEMD_DEVICE_NUMBER:
        return bus_api.append(m, "v", "a(st)", 1, p->text, p->number);
    case SYSTEMD_STRINGS:
    case SYSTEMD_BYTES:
        break;
    }
    bool bytes = p->type == SYSTEMD_BYTES;
    int ret = bus_api.open_container(m, 'v', bytes ? "ay" : "as");
    if (ret >= 0)
        ret = bytes ? bus_api.append_array(m, 'y', p->bytes, p->size)
                    : bus_api.append_strv(m, (char **)p->texts);
    return ret < 0 ? ret : bus_api.close_container(m);
}

/* Append the properties as a(sv), without those in `dropped`; and PIDs when pid is not 0. */
static int append_properties(sd_bus_message *m, const struct systemd_properties *properties,
                             const bool *dropped, pid_t pid)
{
    int ret = bus_api.open_container(m, 'a', "(sv)");
    for (size_t i = 0; ret >= 0 && i < properties->count; i++) {
        const struct systemd_property *p = &properties->items[i];
        if (dropped[i])
            continue;
        ret = bus_api.open_container(m, 'r', "sv");
        if (ret >= 0)
            ret = bus_api.append(m, "s", p->name);
        if (ret >= 0)
            ret = append_value(m, p);
        if (ret >= 0)
            ret = bus_api.close_container(m);
    }
    if (ret >= 0 && pid != 0)
        ret = bus_api.append(m, "(sv)", "PIDs", "au", 1, (uint32_t)pid);
    return ret < 0 ? ret : bus_api.close_container(m);
}

/* "Cannot set property CPUAccounting, or unknown property.": true when the named property may be left out,
 * and now is. A systemd older than the property does not stop the container: its own cgroup's file is written
 * as well. */
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

/* A method that makes systemd queue a job: its reply names the job, the signal JobRemoved its end. */
struct job_state {
    char path[256];
    char result[32];
    bool finished, refused;
    char error_name[128], error_message[256];
};

static int on_reply(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
    (void)ret_error;
    struct job_state *job = userdata;
    const sd_bus_error *error = bus_api.get_error(m);
    const char *path = NULL;
    if (error != NULL) {
        job->refused = true;
        snprintf(job->error_name, sizeof(job->error_name), "%s", error->name != NULL ? error->name : "");
        snprintf(job->error_message, sizeof(job->error_message), "%s",
                 error->message != NULL ? error->message : job->error_name);
    } else if (bus_api.read(m, "o", &path) >= 0) {
        snprintf(job->path, sizeof(job->path), "%s", path);
    }
    return 0;
}

/* systemd answers before it runs the job: a signal that comes without an answer is of another job. */
static int on_job_removed(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
    (void)ret_error;
    struct job_state *job = userdata;
    uint32_t id;
    const char *path, *unit, *result;
    if (bus_api.read(m, "uoss", &id, &path, &unit, &result) >= 0 && job->path[0] != '\0' &&
        strcmp(path, job->path) == 0) {
        job->finished = true;
        snprintf(job->result, sizeof(job->result), "%s", result);
    }
    return 0;
}

static int watch_jobs(sd_bus *bus, struct job_state *job)
{
    return bus_api.match_signal_async(bus, NULL, DESTINATION, OBJECT, MANAGER, "JobRemoved", on_job_removed,
                                      NULL, job);
}

/* Send the call and forget about it until wait_job. */
static int queue_job(sd_bus *bus, sd_bus_message *m, struct job_state *job)
{
    *job = (struct job_state){0};
    int ret = bus_api.call_async(bus, NULL, m, on_reply, job, (uint64_t)TIMEOUT_MS * 1000);
    return ret < 0 ? ret : bus_api.flush(bus);
}

/* Until the job has ended or was refused. */
static int wait_job(sd_bus *bus, const struct job_state *job)
{
    int64_t deadline = cgroup_now_ms() + TIMEOUT_MS;
    while (!job->finished && !job->refused) {
        int ret = bus_api.process(bus, NULL);
        if (ret < 0)
            return ret;
        if (ret > 0)
            continue;
        int64_t left = deadline - cgroup_now_ms();
        if (left <= 0)
            return -ETIMEDOUT;
        ret = bus_api.wait(bus, (uint64_t)left * 1000);
        if (ret < 0 && ret != -EINTR)
            return ret;
    }
    return 0;
}

/* Call and wait for the reply; for the error's name and text, see `job`. */
static int call_now(sd_bus *bus, sd_bus_message *m, struct job_state *job)
{
    *job = (struct job_state){0};
    sd_bus_error error = {0};
    int ret = bus_api.call(bus, m, (uint64_t)TIMEOUT_MS * 1000, &error, NULL);
    if (ret < 0) {
        job->refused = true;
        snprintf(job->error_name, sizeof(job->error_name), "%s", error.name != NULL ? error.name : "");
        snprintf(job->error_message, sizeof(job->error_message), "%s",
                 error.message != NULL ? error.message : strerror(-ret));
    }
    bus_api.error_free(&error);
    return ret < 0 ? ret : 0;
}

static bool is_no_such_unit(const struct job_state *job)
{
    return strcmp(job->error_name, "org.freedesktop.systemd1.NoSuchUnit") == 0;
}

/* A unit that failed stays loaded, and its name taken, until it is told to be forgotten. */
static int reset_failed(sd_bus *bus, const char *scope, struct job_state *job)
{
    cleanup_message sd_bus_message *m = NULL;
    int ret = new_call(bus, "ResetFailedUnit", &m);
    if (ret >= 0)
        ret = bus_api.append(m, "s", scope);
    if (ret >= 0)
        ret = call_now(bus, m, job);
    return ret < 0 && is_no_such_unit(job) ? 0 : ret;
}

struct cgroup_job {
    const struct cgroup_plan *plan;
    pid_t pid;
    sd_bus *bus;
    struct job_state state;
    bool was_reset;
    bool dropped[]; /* one for each of the plan's properties */
};

static void free_job(struct cgroup_job **job)
{
    if (*job == NULL)
        return;
    unref_bus(&(*job)->bus);
    free(*job);
    *job = NULL;
}
#define cleanup_job __attribute__((cleanup(free_job)))

static int request_scope(struct cgroup_job *job)
{
    cleanup_message sd_bus_message *m = NULL;
    int ret = new_call(job->bus, "StartTransientUnit", &m);
    if (ret >= 0)
        ret = bus_api.append(m, "ss", job->plan->ref.scope, "fail");
    if (ret >= 0)
        ret = append_properties(m, job->plan->properties, job->dropped, job->pid);
    if (ret >= 0)
        ret = bus_api.append(m, "a(sa(sv))", 0);
    return ret < 0 ? ret : queue_job(job->bus, m, &job->state);
}

int cgroup_systemd_attach_begin(const struct cgroup_plan *plan, pid_t pid, struct cgroup_job **out,
                                struct error *err)
{
    cleanup_job struct cgroup_job *job = calloc(1, sizeof(*job) + plan->properties->count * sizeof(bool));
    if (job == NULL)
        return error_set(err, -ENOMEM, "start scope '%s'", plan->ref.scope);
    job->plan = plan;
    job->pid = pid;
    int ret = open_bus(plan->ref.user_bus, &job->bus, err);
    if (ret < 0)
        return ret;
    /* The match goes first on the wire: no end of a job can be missed. */
    ret = watch_jobs(job->bus, &job->state);
    if (ret >= 0)
        ret = request_scope(job);
    if (ret < 0)
        return error_set(err, ret, "ask systemd to start scope '%s'", plan->ref.scope);
    *out = job;
    job = NULL;
    return 0;
}

/* What can be mended about a refusal is mended and the request sent again. */
static int answer_refusal(struct cgroup_job *job, struct error *err)
{
    const char *scope = job->plan->ref.scope;
    struct job_state reset;
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
        int ret = wait_job(job->bus, &job->state);
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

/* Length of the part of path that is the scope's own cgroup; 0 when the scope is not in it. */
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
            return error_set(err, -ENAMETOOLONG, "cgroup '%s/%s'", path, plan->subgroup);
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
    /* Only now: a cgroup with processes of its own can give no controllers to others. With privilege from the
     * root down: systemd passes on the controllers that it knows, and hugetlb is not among them. */
    return cgroup_fs_configure(plan, path, plan->ref.rootless ? top : 0, dirfd, err);
}

int cgroup_systemd_attach_finish(struct cgroup_job *job_, char path[PATH_MAX], struct error *err)
{
    cleanup_job struct cgroup_job *job = job_;
    int ret = wait_for_scope(job, err);
    if (ret == 0)
        ret = cgroup_detect_path(job->pid, path, err);
    if (ret < 0)
        return ret;
    size_t top = scope_length(path, job->plan->ref.scope);
    if (top == 0)
        return error_text(err, -EPROTO, "systemd has started scope '%s', but process %d is in cgroup '%s'",
                          job->plan->ref.scope, (int)job->pid, path);
    return enter_subgroup(job, path, top, err);
}

static int stop_scope(sd_bus *bus, const char *scope, struct job_state *job)
{
    cleanup_message sd_bus_message *m = NULL;
    int ret = watch_jobs(bus, job);
    if (ret >= 0)
        ret = new_call(bus, "StopUnit", &m);
    if (ret >= 0)
        ret = bus_api.append(m, "ss", scope, "replace");
    if (ret >= 0)
        ret = queue_job(bus, m, job);
    if (ret >= 0)
        ret = wait_job(bus, job);
    if (ret < 0 || !job->refused || is_no_such_unit(job))
        return ret;
    return -EPROTO;
}

int cgroup_systemd_destroy(const struct cgroup_ref *ref, struct error *err)
{
    char path[PATH_MAX];
    size_t top = scope_length(ref->path, ref->scope);
    snprintf(path, sizeof(path), "%.*s", (int)top, ref->path);
    struct cgroup_ref scope = *ref;
    scope.path = path;
    /* The processes first, at once: systemd would ask them to end and wait. */
    int ret = cgroup_fs_empty(&scope, err);
    if (ret < 0)
        return ret;
    /* systemd takes the cgroup of a scope away when the last process has ended, and forgets the scope
     * (CollectMode): loading the library and asking would cost more than all the rest.
     */
    cleanup_fd int left = cgroup_tree_open(ref->mount, path);
    if (left == -ENOENT)
        return 0;
    cleanup_bus sd_bus *bus = NULL;
    struct error refused = {0};
    struct job_state job = {0};
    ret = open_bus(ref->user_bus, &bus, &refused);
    if (ret == 0) {
        ret = stop_scope(bus, ref->scope, &job);
        if (ret >= 0)
            ret = reset_failed(bus, ref->scope, &job);
        if (ret < 0)
            error_text(&refused, ret, "%s", job.refused ? job.error_message : error_reason(ret));
    }
    /* Without processes the unit ends of itself: that systemd cannot be told (it may be gone as well) is no
     * reason to keep the container. */
    if (ret < 0)
        log_warning("stop scope '%s': %s", ref->scope, refused.text);
    return cgroup_fs_destroy(&scope, err);
}

int cgroup_systemd_update(const struct cgroup_ref *ref, const struct systemd_properties *properties,
                          struct error *err)
{
    if (properties->count == 0)
        return 0;
    cleanup_bus sd_bus *bus = NULL;
    int ret = open_bus(ref->user_bus, &bus, err);
    if (ret < 0)
        return ret;
    cleanup_free bool *dropped = calloc(properties->count, sizeof(bool));
    if (dropped == NULL)
        return error_set(err, -ENOMEM, "change scope '%s'", ref->scope);
    for (;;) {
        cleanup_message sd_bus_message *m = NULL;
        struct job_state job = {0};
        ret = new_call(bus, "SetUnitProperties", &m);
        if (ret >= 0)
            ret = bus_api.append(m, "sb", ref->scope, 1); /* until the unit ends */
        if (ret >= 0)
            ret = append_properties(m, properties, dropped, 0);
        if (ret >= 0)
            ret = call_now(bus, m, &job);
        if (ret >= 0)
            return 0;
        if (!job.refused || !drop_unknown(properties, dropped, job.error_message))
            return error_text(err, ret, "systemd refuses to change scope '%s': %s", ref->scope,
                              job.refused ? job.error_message : error_reason(ret));
    }
}

int cgroup_systemd_move(const struct cgroup_ref *ref, const char *path, pid_t pid, struct error *err)
{
    cleanup_bus sd_bus *bus = NULL;
    int ret = open_bus(ref->user_bus, &bus, err);
    if (ret < 0)
        return ret;
    cleanup_message sd_bus_message *m = NULL;
    struct job_state job = {0};
    ret = new_call(bus, "AttachProcessesToUnit", &m);
    if (ret >= 0)
        ret = bus_api.append(m, "ssau", ref->scope, path + scope_length(path, ref->scope), 1, (uint32_t)pid);
    if (ret >= 0)
        ret = call_now(bus, m, &job);
    if (ret < 0)
        return error_text(err, ret, "systemd refuses to move process %d to scope '%s': %s", (int)pid,
                          ref->scope, job.refused ? job.error_message : error_reason(ret));
    return 0;
}
