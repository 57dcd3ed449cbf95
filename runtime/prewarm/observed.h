/* The launch of a probe, and of a builder whose libraries read their mounts. The program is executed, and the
 * runtime receives its system calls (warm/observe/observe.h). */
#pragma once

#include <stddef.h>

#include "container/launch.h"
#include "sandbox/seccomp/seccomp.h"
#include "warm/observe/observe.h"

struct arena;
struct error;
struct process_plan;

struct observed_program {
    struct launch launch;
    enum observe_mode mode;
    struct seccomp_plan filter;
    int listener; /* -1 until the filter is loaded */
    struct observer *observer;
    struct arena *arena; /* of the observer's records */
};

/* Let the process begin in that way. The caller has set mode, and listener to -1. `observed` must outlive the
 * plan. */
void observed_launch(struct arena *a, struct observed_program *observed, struct process_plan *plan);

/* Return the descriptor to poll for system calls that wait, or -1. It stays the launch's. */
int observed_listener(const struct observed_program *observed);

/* Serve one system call that waits. Return 0 or a negative errno: see observer_serve. */
int observed_serve(struct observed_program *observed, struct error *err);

/* Record nothing from now on, and return the records, which live as long as the arena. */
void observed_stop(struct observed_program *observed, const char **data, size_t *size);
