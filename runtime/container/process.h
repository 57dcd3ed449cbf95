/* The process object: from its properties to execve, for the container's init and for exec alike. */
#ifndef PYSBX_CONTAINER_PROCESS_H
#define PYSBX_CONTAINER_PROCESS_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "container/launch.h"
#include "sandbox/caps.h"
#include "sandbox/credentials.h"
#include "sandbox/ioprio.h"
#include "sandbox/lsm/apparmor.h"
#include "sandbox/lsm/landlock.h"
#include "sandbox/lsm/selinux.h"
#include "sandbox/mempolicy.h"
#include "sandbox/personality.h"
#include "sandbox/rlimits.h"
#include "sandbox/sched.h"
#include "sandbox/seccomp/seccomp.h"
#include "sandbox/terminal.h"
#include "spec/spec.h"

struct error;
struct json_out;
struct seccomp_context;
struct seccomp_handover;

struct process_plan {
    const struct spec_process *process;
    char *const *argv;
    char **envp;
    const char *cwd;
    const char *search_path; /* PATH of the container's environment, for the look-up of argv[0] */
    unsigned preserve_fds;
    const char *keyring; /* name of the session keyring to join, NULL for none */
    bool home_missing;   /* HOME is not in the environment: envp has a place for it at home_slot */
    size_t home_slot;
    struct credentials_plan credentials;
    struct caps_plan caps;
    struct rlimits_plan rlimits;
    struct selinux_plan selinux;
    struct apparmor_plan apparmor;
    struct sched_plan sched;
    struct sched_affinity_plan affinity; /* of exec; empty for init */
    struct ioprio_plan ioprio;
    struct mempolicy_plan mempolicy; /* linux.memoryPolicy, of the container's init */
    struct personality_plan personality;
    struct landlock_plan landlock;
    struct seccomp_plan seccomp;
    struct terminal_plan terminal;
    bool die_with_runtime;       /* SIGKILL when the process that cloned this one ends */
    const struct launch *launch; /* how the program begins; not owned */
};

struct process_context {
    const struct spec *spec; /* the container's; NULL for exec */
    bool user_namespace;     /* the process ends up in another user namespace than the runtime's */
    unsigned preserve_fds, listen_fds;
    const char *keyring;
    bool keep_groups; /* annotation run.oci.keep_original_groups */
    bool exec;
    /* How the filter of `spec` is compiled. NULL: the caller fills in process_plan.seccomp. */
    const struct seccomp_context *filter;
    const char *landlock;       /* annotation LANDLOCK_ANNOTATION or NULL */
    bool landlock_log;          /* runtime.json allows the ruleset's "log" */
    const char *landlock_allow; /* a file that it leaves readable in any case, or NULL */
};

/* Plan everything but the terminal: terminal_plan opens sockets, so the caller does that last. */
int process_plan(struct arena *a, const struct spec_process *process, const struct process_context *context,
                 struct process_plan *out, struct error *err);

/* The steps of the child, in the container's namespaces and root. */

struct process_program {
    char path[PATH_MAX]; /* of the program, in the container */
    bool look_again;     /* the runtime may not see it: the container's user has to look */
};

/* Everything that needs privilege but the change of identity; enters the working directory and finds the
 * program. */
int process_prepare(struct process_plan *plan, struct process_program *program, struct error *err);

/* Take the runtime's binary out of reach (sandbox/detach.h, which says what may be called from here on) and
 * change the identity. Afterwards the process has the container's ids and capabilities, except for what a
 * filter that is loaded without no_new_privs still needs. copy: of the runtime's program, or -1. */
int process_become(struct process_plan *plan, int copy, struct process_program *program, struct error *err);

/* True when the filter has a listener: it must be loaded while the runtime still listens, before the
 * container is created. */
bool process_loads_early(const struct process_plan *plan);

/* no_new_privs, labels that are not set yet, Landlock, filter, last capabilities. */
int process_confine(struct process_plan *plan, struct seccomp_handover *handover, struct error *err);

/* The same in a process that was forked from the one of the plan, to be another program of the container,
 * with no descriptor left but the standard streams. */
int process_confine_hook(struct process_plan *plan, struct error *err);

/* Close every descriptor that is not the program's, but for those in `keep` (at most six; -1 counts as none)
 * and those of the launch. Close-on-exec comes too late: execve looks the program up first, and a path like
 * /proc/self/fd/7/bin/sh would lead through a directory that the runtime, or whoever started it, has open on
 * the host (CVE-2024-21626). To be called before the filter, which may not allow it. */
void process_close_descriptors(const struct process_plan *plan, const int *keep, size_t count);

/* execve; returns only on failure. */
int process_execute(const struct process_plan *plan, const char *program, struct error *err);

void process_describe(const struct process_plan *plan, struct json_out *out);

#endif
