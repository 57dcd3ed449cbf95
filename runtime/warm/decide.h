/* Warm or cold, and why: decided in the parent, from the spec and a look at the container's files. The store
 * is not asked here. */
#ifndef PYSBX_WARM_DECIDE_H
#define PYSBX_WARM_DECIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "spec/annotations.h"
#include "spec/spec.h"
#include "warm/command_line.h"
#include "warm/config.h"
#include "warm/key.h"

struct arena;
struct error;
struct json_out;
struct root_view;

enum warm_mode { WARM_AUTO, WARM_REQUIRE, WARM_OFF };

/* What stands in the way and only the container's plan knows; each has its reason in decide.c. */
enum warm_obstacle {
    WARM_OBSTACLE_LISTENER = 1 << 0,      /* a seccomp filter with a listener: loaded during create */
    WARM_OBSTACLE_PERSONALITY = 1 << 1,   /* another execution domain */
    WARM_OBSTACLE_PRESERVED_FDS = 1 << 2, /* the program expects open descriptors beyond 2 */
    WARM_OBSTACLE_NO_OWN_ROOT = 1 << 3,   /* no mount namespace of its own */
    WARM_OBSTACLE_UNKNOWN_IDS = 1 << 4,   /* the mapping of ids is unknown, so the credentials are */
    WARM_OBSTACLE_TRACING_HOOKS = 1 << 5, /* startContainer hooks can trace the process */
    WARM_OBSTACLE_LATE_CLONE = 1 << 6,    /* exec clones late: container/exec.h */
};

struct warm_context {
    struct key_facts facts;            /* those that the caller knows; warm_decide fills in the others */
    const struct str_map *annotations; /* of the container */
    char *const *argv;
    const char *search_path;    /* PATH for argv[0] */
    bool terminal;              /* standard input will be a terminal */
    unsigned obstacles;         /* of enum warm_obstacle */
    const char *label_obstacle; /* why its label or profile takes an execve(2); NULL: it does not */
    const char *config;         /* path of warm.json, NULL: the usual places */
    bool root_of_host;          /* the caller is root, and not in a user namespace only */
};

struct warm_plan {
    const char *reason; /* why the start is cold; NULL: warm, if the store has the snapshot or can get it */
    bool unseen;        /* cold, because the program cannot be seen from outside: the child searches for it */
    bool candidate;     /* argv[0] is called like an interpreter: only then the rest is filled */
    enum warm_mode mode;
    struct warm_config config;
    struct str_list preload; /* sorted, each once */
    bool bare;               /* nothing is preloaded */
    struct command_line command_line;
    const char *program; /* path of the interpreter in the container */
    unsigned minor;      /* Python 3.minor, as the file is called */
    struct warm_key key;
};

/* True when argv[0] is called python, python3 or python3.N: all that a container without Python pays. */
bool warm_is_candidate(const char *argv0);

/* 0: *out holds the decision. Negative errno: a mistake in the configuration or an annotation, or a reason in
 * mode "require" other than `unseen`. */
int warm_decide(struct arena *a, const struct warm_context *context, struct warm_plan *out,
                struct error *err);

/* Write the pair "warm" of `plan`. `snapshot`: what the store has, in words. */
void warm_describe(const struct warm_plan *plan, const char *snapshot, struct json_out *out);

#endif
