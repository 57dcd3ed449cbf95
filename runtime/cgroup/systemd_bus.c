#include "cgroup/systemd_bus.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/libraries.h"
#include "cgroup/systemd_properties.h"
#include "cgroup/tree.h"

#define DESTINATION "org.freedesktop.systemd1"
#define OBJECT      "/org/freedesktop/systemd1"
#define MANAGER     "org.freedesktop.systemd1.Manager"

/* A job of a busy systemd may take longer than the default of D-Bus, 25 s. */
#define TIMEOUT_MS 30000

struct bus_api bus_api;

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

static int bus_load_library(struct error *err)
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

void systemd_bus_unref(sd_bus **bus)
{
    if (*bus != NULL)
        bus_api.flush_close_unref(*bus);
}

void systemd_message_unref(sd_bus_message **m)
{
    if (*m != NULL)
        bus_api.message_unref(*m);
}

int systemd_bus_open(bool user, sd_bus **bus, struct error *err)
{
    int ret = bus_load_library(err);
    if (ret < 0)
        return ret;
    ret = user ? bus_api.open_user(bus) : bus_api.open_system(bus);
    if (ret == -ENOMEDIUM && user)
        return error_text(err, ret,
                          "no D-Bus of the user: neither DBUS_SESSION_BUS_ADDRESS nor XDG_RUNTIME_DIR is set "
                          "(log in as the user, or use the cgroup manager cgroupfs)");
    return ret < 0 ? error_set(err, ret, "connect to systemd over the %s bus", user ? "user's" : "system")
                   : 0;
}

int systemd_call_new(sd_bus *bus, const char *method, sd_bus_message **m)
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
    if (ret < 0)
        return ret;
    ret = bytes ? bus_api.append_array(m, 'y', p->bytes, p->size) : bus_api.append_strv(m, (char **)p->texts);
    return ret < 0 ? ret : bus_api.close_container(m);
}

static int append_property(sd_bus_message *m, const struct systemd_property *p)
{
    int ret = bus_api.open_container(m, 'r', "sv");
    if (ret < 0)
        return ret;
    ret = bus_api.append(m, "s", p->name);
    if (ret < 0)
        return ret;
    ret = append_value(m, p);
    return ret < 0 ? ret : bus_api.close_container(m);
}

int systemd_append_properties(sd_bus_message *m, const struct systemd_properties *properties,
                              const bool *dropped, pid_t pid)
{
    int ret = bus_api.open_container(m, 'a', "(sv)");
    if (ret < 0)
        return ret;
    for (size_t i = 0; i < properties->count; i++) {
        ret = dropped[i] ? 0 : append_property(m, &properties->items[i]);
        if (ret < 0)
            return ret;
    }
    ret = pid != 0 ? bus_api.append(m, "(sv)", "PIDs", "au", 1, (uint32_t)pid) : 0;
    return ret < 0 ? ret : bus_api.close_container(m);
}

static int on_reply(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
    (void)ret_error;
    struct systemd_job *job = userdata;
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

/* systemd replies before it runs the job, so a signal without a reply before it belongs to another job. */
static int on_job_removed(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
    (void)ret_error;
    struct systemd_job *job = userdata;
    uint32_t id;
    const char *path, *unit, *result;
    if (bus_api.read(m, "uoss", &id, &path, &unit, &result) >= 0 && job->path[0] != '\0' &&
        strcmp(path, job->path) == 0) {
        job->finished = true;
        snprintf(job->result, sizeof(job->result), "%s", result);
    }
    return 0;
}

int systemd_jobs_watch(sd_bus *bus, struct systemd_job *job)
{
    return bus_api.match_signal_async(bus, NULL, DESTINATION, OBJECT, MANAGER, "JobRemoved", on_job_removed,
                                      NULL, job);
}

int systemd_job_queue(sd_bus *bus, sd_bus_message *m, struct systemd_job *job)
{
    *job = (struct systemd_job){0};
    int ret = bus_api.call_async(bus, NULL, m, on_reply, job, (uint64_t)TIMEOUT_MS * 1000);
    return ret < 0 ? ret : bus_api.flush(bus);
}

int systemd_job_wait(sd_bus *bus, const struct systemd_job *job)
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

int systemd_call(sd_bus *bus, sd_bus_message *m, struct systemd_job *job)
{
    *job = (struct systemd_job){0};
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

bool systemd_is_no_such_unit(const struct systemd_job *job)
{
    return strcmp(job->error_name, "org.freedesktop.systemd1.NoSuchUnit") == 0;
}
