/* The plan of a container: everything that create will do, decided before anything is touched. Parsing,
 * validation, compilation of the filter and all look-ups end here; the child executes and decides nothing. */
#ifndef PYSBX_CONTAINER_PLAN_H
#define PYSBX_CONTAINER_PLAN_H

#include <stdbool.h>

#include "base/arena.h"
#include "cgroup/cgroup.h"
#include "container/options.h"
#include "container/process.h"
#include "sandbox/idmap.h"
#include "sandbox/intelrdt.h"
#include "sandbox/namespaces.h"
#include "sandbox/net/netdev.h"
#include "sandbox/sysctl.h"
#include "spec/annotations.h"
#include "spec/spec.h"

struct error;
struct json_out;
struct rootfs_plan;

struct plan {
    const char *id;
    const char *bundle; /* absolute, links resolved */
    const char *rootfs; /* absolute */
    const char *config; /* the text of the configuration */
    size_t config_size;
    const struct spec *spec;            /* its annotations are those that are honoured */
    struct annotations_ignored ignored; /* the others */
    bool landlock_log;                  /* as runtime.json says */
    bool has_process; /* the specification allows a container that can only be created and deleted */
    struct process_plan process;
    struct namespaces_plan namespaces;
    struct idmap_plan idmap;
    bool other_user_namespace; /* new or joined */
    struct rootfs_plan *rootfs_plan;
    struct sysctl_plan sysctl;
    struct netdev_plan netdev;
    struct intelrdt_plan intelrdt;
    struct cgroup_plan *cgroup;
    bool traceable; /* container/tracing.h */
};

/* A plan that holds no descriptor. */
#define PLAN_NONE ((struct plan){.process.terminal = TERMINAL_PLAN_NONE, .namespaces.runtime = -1})

/* What a plan is made of. */
struct plan_source {
    const char *bundle; /* absolute, links resolved */
    const char *config; /* the text of the configuration, which `spec` points into */
    size_t config_size;
    const struct spec *spec; /* validated */
};

/* Read the bundle's configuration. */
int plan_read(struct arena *a, const struct create_options *options, struct plan_source *out,
              struct error *err);

/* Make the plan: reads the system, touches nothing. state_dir: descriptor of the state root, where the cache
 * of compiled filters lives, or -1. What the plan has opened is its own also after a failure. */
int plan_make(struct arena *a, const struct runtime_options *rt, const struct create_options *options,
              const struct plan_source *source, int state_dir, struct plan *out, struct error *err);

/* Warn of annotations without effect. Call it once a command, and not before what may begin the command anew.
 */
void plan_warn(struct arena *a, const struct plan *plan);

void plan_describe(const struct plan *plan, struct json_out *out);

#endif
