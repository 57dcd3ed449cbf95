/* The process object, from its properties to execve. The container's init and exec both use it. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "container/first.h"
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
    const char *keyring; /* of the session keyring to join; NULL: none */
    /* HOME is not in the environment: envp has an entry for it at home_slot. */
    bool home_missing;
    size_t home_slot;
    struct credentials_plan credentials;
    struct caps_plan caps;
    struct rlimits_plan rlimits;
    struct selinux_plan selinux;
    struct apparmor_plan apparmor;
    struct sched_plan sched;
    struct sched_affinity_plan affinity; /* for exec; empty for init */
    struct ioprio_plan ioprio;
    struct mempolicy_plan mempolicy; /* linux.memoryPolicy */
    struct personality_plan personality;
    struct landlock_plan landlock;
    struct seccomp_plan seccomp;
    struct terminal_plan terminal;
    struct first_plan first;     /* the minimal init */
    bool die_with_runtime;       /* SIGKILL when its parent ends */
    const struct launch *launch; /* how the program begins; not owned */
};

struct process_context {
    const struct spec *spec; /* the container's; NULL for exec */
    /* Of the container, for linux.memoryPolicy and linux.personality; NULL: it has neither. */
    const struct spec_linux *linux_;
    bool user_namespace; /* the process enters another user namespace than the runtime's */
    unsigned preserve_fds, listen_fds;
    const char *keyring;
    bool keep_groups; /* annotation run.oci.keep_original_groups */
    bool exec;
    /* How the filter of `spec` is compiled. NULL: the caller fills in process_plan.seccomp. */
    const struct seccomp_context *filter;
    const char *landlock;       /* annotation LANDLOCK_ANNOTATION or NULL */
    bool landlock_log;          /* runtime.json allows the ruleset's "log" */
    const char *landlock_allow; /* a file that it leaves readable in any case; NULL: none */
};

/* Plan everything but the terminal. The caller plans that last, because terminal_plan opens sockets. The plan
 * lives in the arena. Return 0 or a negative errno. */
int process_plan(struct arena *a, const struct spec_process *process, const struct process_context *context,
                 struct process_plan *out, struct error *err);

/* The steps of the child, in the container's namespaces and root. Functions return 0 or a negative errno. */

struct process_program {
    char path[PATH_MAX]; /* of the program, in the container */
    bool look_again;     /* the runtime may not see it: the container's user looks again */
};

/* Runtime: give the standard streams to the user of the process, unless it gets a terminal instead.
 * mapped: a process in its user namespace, which may not map the owner of the streams; 0 without one.
 * pidfd: of that process, or of any other one that exists.
 * loan: of a process that the runtime waits for, NULL otherwise. The child gives pipes by itself if it can.
 * Return 0 or a negative errno. */
int process_give_stdio(const struct process_plan *plan, pid_t mapped, int pidfd, struct stdio_loan *loan,
                       struct error *err);

/* Take all steps that need privilege, except the change of identity. Enter the working directory and find the
 * program. */
int process_prepare(struct process_plan *plan, struct process_program *program, struct error *err);

/* Put the runtime's binary out of reach (sandbox/detach.h, which tells what may be called from here on), and
 * change the identity. Afterwards the process has the container's IDs and capabilities. It also keeps
 * capabilities for a filter that is loaded without no_new_privs. copy: descriptor of a copy of the runtime's
 * program, or -1. */
int process_become(struct process_plan *plan, int copy, struct process_program *program, struct error *err);

/* Return whether the filter has a listener. Then it must be loaded while the runtime still listens, before
 * the container is created. */
bool process_loads_early(const struct process_plan *plan);

/* Apply, in this order: no_new_privs, labels that are not set yet, Landlock's rules, the filter, the last
 * capabilities. */
int process_confine(struct process_plan *plan, struct seccomp_handover *handover, struct error *err);

/* Do the same in a process that was forked from the plan's process, and that becomes another program of the
 * container. It keeps no descriptor but the standard streams. */
int process_confine_hook(struct process_plan *plan, struct error *err);

/* Return whether labels are not set yet, so that the process which confines itself writes them. */
bool process_labels_open(const struct process_plan *plan);

/* Open the files for these labels again, in a process that was cloned from the plan's process. Labels that
 * are set for execve(2) are inherited, but only its owner may write to such a file. This needs the /proc of
 * proc_root. It changes nothing in memory. Return 0 or a negative errno. */
int process_reopen_labels(const struct process_plan *plan, struct error *err);

/* Close every descriptor that is not the program's, except those in `keep` and those of the launch. `keep`
 * has at most six; -1 counts as none. Close-on-exec comes too late, because execve looks the program up
 * first. A path like /proc/self/fd/7/bin/sh would lead through a directory on the host that the runtime or
 * its caller has open (CVE-2024-21626). Call this before the filter is loaded, because the filter may not
 * allow it. */
void process_close_descriptors(const struct process_plan *plan, const int *keep, size_t count);

/* Call execve. Return a negative errno, only on failure. */
int process_execute(const struct process_plan *plan, const char *program, struct error *err);

/* Write the process as a JSON object, for `plan`. Values of environment variables are left out. */
void process_describe(const struct process_plan *plan, struct json_out *out);
