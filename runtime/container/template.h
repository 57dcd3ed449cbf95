/* The template: a container like the one that is wanted, in which an interpreter imports its modules and is
 * then written down by the runtime as a snapshot. */
#ifndef PYSBX_CONTAINER_TEMPLATE_H
#define PYSBX_CONTAINER_TEMPLATE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "container/lifecycle.h"
#include "container/plan.h"

struct error;

/* Where the template finds the agent: beneath a /dev that is the container's own. */
#define TEMPLATE_AGENT_PATH "/dev/.pysbx-agent.so"

/* The descriptor on which the template's interpreter reports: its standard input. */
#define TEMPLATE_REPORT_FD 0

struct template_request {
    const struct runtime_options *rt;
    const struct create_options *options; /* of the container that is wanted */
    const struct plan *plan;              /* its plan */
    const char *agent;                    /* the agent as a file of the host */
    const char *const *argv;              /* interpreter, flags, bootstrap, its arguments; NULL last */
    unsigned timeout;                     /* seconds from the start of the interpreter to its last word */
    uint64_t memory;                      /* bytes of address space at most, 0: what the container may have */
};

/* What the template said when it was ready: records as in warm/manifest.h, not to be trusted. What it said of
 * its progress is taken out: "i" and the name of a module that it is about to import, for a template that
 * ends on the way. */
struct template_report {
    struct stat pid_namespace; /* that the template is in */
    const char *data;
    size_t size;
    pid_t rehearsal; /* a process that has gone the way of those to be restored (dump_request.rehearsal), or 0
                      */
};

/* Called when the interpreter is parked; pid is in the caller's pid namespace, root the template's root
 * directory. Runs in a process of its own. */
typedef int template_taker(void *arg, pid_t pid, int root, const struct template_report *report,
                           struct error *err);

/* Make the template, let `take` have the parked interpreter, take the template away again. Nothing is left
 * behind, whatever happens: the template dies with the runtime, and delete --force of the container that is
 * wanted removes what a killed runtime left. -ETIMEDOUT, what the template reported as its failure
 * (-ENOEXEC), what `take` returned. */
int template_run(const struct template_request *request, template_taker *take, void *arg, struct error *err);

/* The id of the template of a container, in the arena: its own, no container can have it, and for any id that
 * a container can have it is short enough to be the name of a directory. */
const char *template_id(struct arena *a, const char *id);

#endif
