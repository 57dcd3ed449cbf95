/* The plan of a container: everything that create will do, decided before it changes anything. Parsing,
 * validation, compilation of the filter and all look-ups end here. The child carries the plan out and decides
 * nothing. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "cgroup/cgroup.h"
#include "container/options.h"
#include "container/process.h"
#include "sandbox/idmap.h"
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
    const struct spec *spec;            /* its annotations are those that the runtime honours */
    struct annotations_ignored ignored; /* the other annotations */
    bool landlock_log;                  /* from runtime.json */
    /* Without a process, a container can only be created and deleted. The specification allows that. */
    bool has_process;
    struct process_plan process;
    struct namespaces_plan namespaces;
    struct idmap_plan idmap;
    bool other_user_namespace; /* a new one, or one that is joined */
    struct rootfs_plan *rootfs_plan;
    struct sysctl_plan sysctl;
    struct netdev_plan netdev;
    struct cgroup_plan *cgroup;
    bool traceable; /* container/tracing.h */
};

/* A plan that holds no descriptor. */
#define PLAN_NONE ((struct plan){.process.terminal = TERMINAL_PLAN_NONE, .namespaces.runtime = -1})

/* The input of a plan. */
struct plan_source {
    const char *bundle; /* absolute, links resolved */
    const char *config; /* the text of the configuration; `spec` points into it */
    size_t config_size;
    const struct spec *spec; /* validated */
};

/* Read the bundle's configuration. It lives in the arena. Return 0 or a negative errno. */
int plan_read(struct arena *a, const struct create_options *options, struct plan_source *out,
              struct error *err);

/* Make the plan: read the system, and change nothing. state_dir is the descriptor of the state root, which
 * has the cache of compiled filters, or -1. The plan owns what it has opened, also after a failure. Return 0
 * or a negative errno. */
int plan_make(struct arena *a, const struct runtime_options *rt, const struct create_options *options,
              const struct plan_source *source, int state_dir, struct plan *out, struct error *err);

/* Warn of annotations without effect. Call it once per command, and not before a step that may restart the
 * command. */
void plan_warn(struct arena *a, const struct plan *plan);

/* Write the plan as JSON, for `plan`. Values of environment variables are left out. */
void plan_describe(const struct plan *plan, struct json_out *out);
