/* OCI hooks (runtime-spec, config.md, "POSIX-platform Hooks"). Hooks are programs of the host, or of the
 * container for startContainer. They get the container's state on standard input. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "spec/spec.h"

struct error;
struct process_plan;
struct record;

struct hook_run {
    const char *kind;   /* "prestart", …: for messages */
    const char *status; /* of the container at this point of its life */
    /* Of its init, as the runtime's pid namespace numbers it. 0 if it has ended. */
    pid_t pid;
    const char *cwd; /* working directory; NULL: the current one */
    /* For a hook that is a program of the container. `environment` is for a hook without its own; NULL: the
     * runtime's. `confine` is the plan of the process whose confinement the hook shares; NULL: the caller's
     * confinement. */
    char *const *environment;
    struct process_plan *confine;
    bool labelled; /* the hook has an SELinux label: its standard error is the container's */
};

/* Run the hooks in order, each with the state on standard input, until one fails. A hook fails by an exit
 * status other than 0, by a signal, or by its timeout, which kills it. The error names hook, path and reason,
 * and ends with the hook's last line on standard error. A hook inherits no descriptor but the standard
 * streams. The annotations run.oci.hooks.stdout and run.oci.hooks.stderr name files that take the output of
 * hooks. If the hook is a program of the container, they are files of the container, and no link of the image
 * to /proc/self/fd is followed. Return 0 or a negative errno. */
int hooks_run(const struct spec_hook_list *hooks, const struct hook_run *run, const struct record *record,
              struct error *err);

/* Called by the container's first process: return its own pid as the runtime numbers it. The runtime's /proc
 * must be open. */
pid_t hooks_own_pid(void);

/* Run the hooks as hooks_run does, but a failure is only a warning and the next hook runs. This is for
 * poststop. */
void hooks_run_all(const struct spec_hook_list *hooks, const struct hook_run *run,
                   const struct record *record);
