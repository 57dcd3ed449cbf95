/* OCI hooks (runtime-spec config.md "POSIX-platform Hooks"): programs of the host, or of the container for
 * startContainer, that get the container's state on standard input. */
#ifndef PYSBX_CONTAINER_HOOKS_H
#define PYSBX_CONTAINER_HOOKS_H

#include <stdbool.h>
#include <sys/types.h>

#include "spec/spec.h"

struct error;
struct process_plan;
struct record;

struct hook_run {
    const char *kind;   /* "prestart", …: for messages */
    const char *status; /* of the container at this point of its life */
    pid_t pid; /* of its init as the runtime's pid namespace numbers it; 0 when there is none any more */
    const char *cwd; /* working directory; NULL: the present one */
    /* Of a hook that is a program of the container: what it gets without an environment of its own; NULL: the
     * runtime's. And whose process' confinement it shares; NULL: that of whoever runs it. */
    char *const *environment;
    struct process_plan *confine;
    bool labelled; /* it has an SELinux label: what it says on standard error goes to the container's */
};

/* Run the hooks in order, each with the state on stdin, until one fails: exit status not 0, a signal, its
 * timeout (it is killed). Error names hook, path and reason, and ends with the last line that the hook wrote
 * to standard error. No descriptor but the standard streams reaches a hook. Annotations run.oci.hooks.stdout
 * and run.oci.hooks.stderr name files that take the output of hooks, of the container where the hook is its
 * program: no link of the image to /proc/self/fd is followed there. */
int hooks_run(const struct spec_hook_list *hooks, const struct hook_run *run, const struct record *record,
              struct error *err);

/* The pid of the container's first process, for itself, as the runtime numbers it: by the runtime's /proc,
 * which must be open. */
pid_t hooks_own_pid(void);

/* As hooks_run, but a failure is only a warning and the next hook runs: poststop. */
void hooks_run_all(const struct spec_hook_list *hooks, const struct hook_run *run,
                   const struct record *record);

#endif
