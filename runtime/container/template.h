/* The probe and the template: two containers like the one that is wanted, one after the other. In the probe
 * an interpreter imports the modules with all that the container has, and the runtime observes what it looks
 * at. The template has nothing of the container but that (template_needs.h); its interpreter imports the
 * modules again, and is then written down by the runtime as a snapshot. */
#ifndef PYSBX_CONTAINER_TEMPLATE_H
#define PYSBX_CONTAINER_TEMPLATE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "container/lifecycle.h"
#include "container/plan.h"

struct error;

/* The descriptor on which the template's interpreter reports: its standard input. */
#define TEMPLATE_REPORT_FD 0

struct template_request {
    const struct runtime_options *rt;
    const struct create_options *options; /* of the container that is wanted */
    const struct plan *plan;              /* its plan */
    const char *agent;                    /* the agent as a file of the host */
    const char *const *argv;              /* interpreter, flags, bootstrap, its arguments; NULL last */
    unsigned timeout;                     /* seconds that each of the two interpreters may take */
    uint64_t memory;                      /* bytes of address space at most, 0: what the container may have */
};

/* What a probe or template said: records as in warm/manifest/manifest.h, not to be trusted. What it said of
 * its progress is taken out: "i" and the name of a module that it is about to import, for one that ends on
 * the way. */
struct template_report {
    struct stat pid_namespace; /* that the template is in */
    const char *data;
    size_t size;
    pid_t rehearsal; /* a process that has gone the way of those to be restored (dump_request.rehearsal), or 0
                      */
};

/* What is done with the two, in a process of its own. `root` is the root directory of the interpreter, `pid`
 * its number in the caller's pid namespace. */
struct template_taker {
    /* The probe has reported, and waits. */
    int (*probed)(void *arg, int root, const struct template_report *report, struct error *err);
    /* The template's interpreter is parked. */
    int (*take)(void *arg, pid_t pid, int root, const struct template_report *report, struct error *err);
    void *arg;
};

/* Make the probe and the template, let the taker have them, remove them again. Nothing is left behind,
 * whatever happens: both die with the runtime, and delete --force of the container that is wanted removes
 * what a killed runtime left. -ETIMEDOUT, what they reported as their failure (-ENOEXEC), what the taker
 * returned. */
int template_run(const struct template_request *request, const struct template_taker *taker,
                 struct error *err);

/* The id of the template of a container, in the arena: its own, no container can have it, and for any id that
 * a container can have it is short enough to be the name of a directory. */
const char *template_id(struct arena *a, const char *id);

#endif
