/* One more process in a container: the decisions of exec before it changes anything. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "container/options.h"
#include "container/process.h"
#include "container/record.h"

struct error;
struct seccomp_handover;

struct exec_options {
    const char *id;
    struct arena *arena; /* the memory of the following */
    /* Complete, from --process or the options: see exec_default_process. */
    struct spec_process *process;
    const char *pid_file, *console_socket, *pidfd_socket;
    const char *cgroup; /* sub-cgroup beneath the container's, or NULL */
    unsigned preserve_fds, listen_fds;
    bool detach, ignore_paused;
};

struct execution {
    struct arena arena;
    const struct exec_options *options;
    struct record record;
    struct process_plan plan;
    struct seccomp_handover *handover;
    int copy; /* of the runtime's program, see sandbox/detach.h */
    int dir;
    int lock;         /* a shared lock: container/tracing.h; -1: none */
    int init;         /* pidfd of the container's init */
    int pidfd;        /* the new process */
    int pidfd_socket; /* where it is sent to; -1: nowhere */
    int sync;
    pid_t pid;
    struct stdio_loan loan;
    bool late; /* clone late: container/exec.h */
};

/* Return in *out the process object of the container's own config.json, in the arena. The options of exec may
 * change it. User, capabilities, labels and limits are the container's. Return 0 or a negative errno. */
int exec_default_process(struct arena *a, const struct runtime_options *rt, const char *id,
                         struct spec_process **out, struct error *err);

/* Open the container of the options and plan the process, or refuse it. If the process can trace, this marks
 * containers as traceable (container/tracing.h), and changes nothing else outside the execution. Release the
 * execution also after a failure. Return 0 or a negative errno. */
int execution_plan(const struct runtime_options *rt, const struct exec_options *options,
                   struct execution *out, struct error *err);

/* Return in *out the configuration of the container with the process of the options: it tells what the
 * program will find. It lives in the arena of the execution. Return 0 or a negative errno. */
int execution_spec(struct execution *x, struct spec **out, struct error *err);

/* Close and free what the execution holds. */
void execution_release(struct execution *x);
#define cleanup_execution __attribute__((cleanup(execution_release)))
