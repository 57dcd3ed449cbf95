/* systemd's manager over D-Bus: its methods, and the jobs that they queue. libsystemd's sd-bus(3) is loaded
 * when it is first needed, because other managers and most commands do not need it, and it may be missing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;
struct systemd_properties;

/* The used part of <systemd/sd-bus.h>, whose ABI is stable. */
typedef struct sd_bus sd_bus;
typedef struct sd_bus_message sd_bus_message;
typedef struct sd_bus_slot sd_bus_slot;
typedef struct {
    const char *name, *message;
    int need_free;
} sd_bus_error;
typedef int (*sd_bus_message_handler_t)(sd_bus_message *m, void *userdata, sd_bus_error *ret_error);

/* Its functions. Valid after a bus was opened. */
struct bus_api {
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
};
extern struct bus_api bus_api;

/* Connect to the manager of the caller (`user`) or of the system. The caller releases the connection. 0 or
 * negative errno; -ENOTSUP if libsystemd is missing or too old. */
int systemd_bus_open(bool user, sd_bus **bus, struct error *err);

/* Send pending messages and close the connection, unless it is NULL. */
void systemd_bus_unref(sd_bus **bus);
#define cleanup_bus __attribute__((cleanup(systemd_bus_unref)))

/* Release the message, unless it is NULL. */
void systemd_message_unref(sd_bus_message **m);
#define cleanup_message __attribute__((cleanup(systemd_message_unref)))

/* Begin the call of a method of the manager. The caller releases the message. This and all following
 * functions return the result of sd-bus: a negative errno, otherwise success. */
int systemd_call_new(sd_bus *bus, const char *method, sd_bus_message **m);

/* Append the properties as a(sv), except those whose item in `dropped` is true, and PIDs if pid is not 0. */
int systemd_append_properties(sd_bus_message *m, const struct systemd_properties *properties,
                              const bool *dropped, pid_t pid);

/* The call of a method that makes systemd queue a job. Its reply names the job, and the signal JobRemoved
 * reports its end. */
struct systemd_job {
    char path[256];
    char result[32]; /* once finished: "done", or another result of JobRemoved */
    bool finished, refused;
    char error_name[128], error_message[256]; /* if refused */
};

/* Record the end of the job in *job, as long as the connection exists. To be called before the method, so
 * that the end cannot be missed. */
int systemd_jobs_watch(sd_bus *bus, struct systemd_job *job);

/* Send the call without waiting. systemd_job_wait waits for it. */
int systemd_job_queue(sd_bus *bus, sd_bus_message *m, struct systemd_job *job);

/* Wait until the job has ended or was refused. -ETIMEDOUT after 30 seconds. */
int systemd_job_wait(sd_bus *bus, const struct systemd_job *job);

/* Call and wait for the reply. `job` gets the name and text of an error. */
int systemd_call(sd_bus *bus, sd_bus_message *m, struct systemd_job *job);

/* Return whether the call was refused because the unit does not exist. */
bool systemd_is_no_such_unit(const struct systemd_job *job);
