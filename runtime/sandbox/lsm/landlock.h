/* Landlock (landlock(7)): what the program may do with files, TCP ports, abstract sockets and signals, below
 * what all other mechanisms leave it. Decided by the annotation run.pysbx.landlock, for the container's first
 * process, startContainer hooks and exec alike.
 *
 * The annotation is the word "default", or a ruleset in JSON:
 *
 *   filesystem.read    paths to read and list; to execute, too, unless `execute` is given
 *   filesystem.write   that, and all changes but making device nodes
 *   filesystem.execute paths to execute and read, and nothing else is executed
 *   filesystem.device  paths to open and use, no more
 *   network.bind       TCP ports, or the word "any"
 *   network.connect    the same
 *   scope              "abstract-unix-socket", "signal": those reach no process outside
 *   log                denials go to the audit log
 *   enforcement        "best-effort", or "required": an error where the kernel lacks a right
 *
 * What is left out is as in "default": everything is read-only but /tmp, devices that store nothing can be
 * used, no port is open, both scopes are closed. Paths are the container's, each with all that is beneath it;
 * one that begins with "-" may be missing. */
#ifndef PYSBX_SANDBOX_LSM_LANDLOCK_H
#define PYSBX_SANDBOX_LSM_LANDLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/lsm/landlock_rights.h"
#include "spec/annotations.h"

struct arena;
struct error;
struct json_out;

struct landlock_path {
    const char *path; /* absolute, in the container */
    uint64_t access;  /* FS_… of landlock_abi.h */
    bool optional;    /* may be missing */
    bool follow;      /* symbolic links */
};

struct landlock_port {
    uint32_t port;
    uint64_t access; /* NET_… */
};

struct landlock_plan {
    bool wanted; /* there is an annotation; without it nothing below counts */
    bool required;
    int abi;                         /* the kernel's */
    struct landlock_rights enforced; /* what is restricted, of what the kernel has */
    struct landlock_rights
        dropped;   /* what the kernel lacks (nothing when required), and a log that is not allowed */
    bool silenced; /* landlock_plan_silence has dropped the log */
    const struct landlock_path *paths;
    size_t path_count;
    const struct landlock_port *ports;
    size_t port_count;
    int ruleset; /* child: from landlock_prepare to landlock_apply; -1 for none */
};

#define LANDLOCK_PLAN_NONE ((struct landlock_plan){.ruleset = -1})

/* The process will be restricted: a ruleset is wanted and the kernel has Landlock. */
static inline bool landlock_active(const struct landlock_plan *plan)
{
    return plan->wanted && plan->abi > 0;
}

/* Parent: parse the annotation (NULL: nothing is wanted) for a kernel with this ABI (landlock_abi()).
 * 0; -EINVAL, the text names the place in the JSON; -ENOTSUP for "required" when rights are missing, the text
 * names them and the release of Linux to have. */
int landlock_plan(struct arena *a, const char *annotation, int abi, struct landlock_plan *out,
                  struct error *err);

/* Parent, after landlock_plan: leave one more file readable, which the container does not know of. Nothing to
 * do when nothing is restricted. */
void landlock_plan_allow(struct arena *a, const char *path, struct landlock_plan *plan);

/* Parent, after landlock_plan: drop the ruleset's "log". The ruleset may be the image's, and each denial that
 * is logged is a line in the audit log of the host. */
void landlock_plan_silence(struct landlock_plan *plan);

/* Child, in the container's root and before the change of ids: make the ruleset from the paths that are there
 * now. Paths are opened with the runtime's privilege: what the program's user cannot look up may still become
 * accessible to it. */
int landlock_prepare(struct landlock_plan *plan, struct error *err);

/* Child, after the last mount and before the filter, which may forbid the call: restrict the process, for
 * good. Needs no_new_privs or CAP_SYS_ADMIN in the process' user namespace. From here on files are opened by
 * the rules, those of the runtime too. */
int landlock_apply(struct landlock_plan *plan, struct error *err);

/* One object: ABI, enforcement, what is restricted and what is dropped, each path and port with its rights.
 */
void landlock_describe(const struct landlock_plan *plan, struct json_out *out);

#endif
