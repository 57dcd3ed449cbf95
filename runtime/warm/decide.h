/* Decide whether a start is warm or cold, and why. The parent decides, from the spec and the container's
 * files. The store is not asked here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "spec/annotations.h"
#include "spec/spec.h"
#include "warm/command_line.h"
#include "warm/config.h"
#include "warm/key.h"

struct arena;
struct json_out;
struct root_view;

enum warm_mode { WARM_AUTO, WARM_REQUIRE, WARM_OFF };

struct warm_context {
    struct key_facts facts;            /* those that the caller knows; warm_decide fills in the others */
    const struct str_map *annotations; /* of the container */
    char *const *argv;
    const char *search_path; /* PATH for argv[0] */
    bool terminal;           /* standard input will be a terminal */
    const char *obstacle;    /* a reason of the container for a cold start, in words for a user, or NULL */
    const char *config;      /* path of warm.json, NULL: the default paths */
    bool root_of_host;       /* the caller is root, and not only in a user namespace */
};

struct warm_plan {
    const char *reason;   /* why the start is cold; NULL: warm, if the store has the snapshot or can get it */
    enum error_kind kind; /* of the reason */
    bool unseen;    /* cold, because the program is not visible from outside: the child searches for it */
    bool candidate; /* argv[0] has the name of an interpreter; the rest is filled in only then */
    enum warm_mode mode;
    struct warm_config config;
    struct str_list preload; /* directories in their order, then modules: sorted, each once */
    bool bare;               /* nothing is preloaded */
    struct command_line command_line;
    const char *program; /* path of the interpreter in the container */
    unsigned minor;      /* Python 3.minor, */
    struct warm_key key;
};

/* Return whether the name of argv[0] is python, python3 or python3.N. A container without Python pays for
 * this check only. */
bool warm_is_candidate(const char *argv0);

/* Decide. 0: *out holds the decision. Negative errno: a mistake in the configuration or an annotation, or a
 * reason in mode "require" other than `unseen`. */
int warm_decide(struct arena *a, const struct warm_context *context, struct warm_plan *out,
                struct error *err);

/* Write the pair "warm" of `plan`. `snapshot`: the state of the snapshot in the store, in words. */
void warm_describe(const struct warm_plan *plan, const char *snapshot, struct json_out *out);
