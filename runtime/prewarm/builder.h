/* Probe and builder: two containers like the wanted one, one after the other. In the probe an interpreter
 * imports the modules with everything that the container has, and the runtime observes what they look at. The
 * builder has only these parts of the container (builder_needs.h). Its interpreter imports the modules again,
 * and the runtime saves it as a snapshot. */
#pragma once

#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "prewarm/builder_spec.h"

struct error;
struct start;

/* The descriptor on which the interpreter reports: its standard input. */
#define BUILDER_REPORT_FD 0

/* The report of a probe or builder. Its records are those of warm/manifest/manifest.h, and come from an
 * untrusted process. Records of progress are left out: "i" and the name of the module that is imported
 * next. */
struct builder_report {
    struct stat pid_namespace; /* of the container */
    const char *data;
    size_t size;
    pid_t rehearsal; /* a process that has rehearsed a restore (dump_request.rehearsal), or 0 */
};

struct builder_request {
    const struct start *start;
    struct builder_program program;
    unsigned timeout; /* seconds for each of the two interpreters */
    /* These functions are called in a process of its own. `root` is the root directory of the interpreter,
     * and `pid` its number in the pid namespace of the caller. They return 0 or a negative errno. */
    /* The probe has reported, and waits. */
    int (*probed)(void *arg, int root, const struct builder_report *report, struct error *err);
    /* The interpreter of the builder has parked. */
    int (*parked)(void *arg, pid_t pid, int root, const struct builder_report *report, struct error *err);
    void *arg;
};

/* Create both containers, pass them to the request, and delete them. Nothing is left: both die with the
 * runtime, and delete --force of the wanted container removes what a killed runtime left
 * (record_companion_id). Return 0, -ETIMEDOUT, -ENOEXEC with the reason that an interpreter reported, or the
 * error of the request's functions. */
int builder_run(const struct builder_request *request, struct error *err);
