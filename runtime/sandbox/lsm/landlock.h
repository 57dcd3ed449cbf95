/* Landlock (landlock(7)): what the program may do with files, TCP ports, abstract sockets and signals, within
 * the limits of all other mechanisms. The annotation run.pysbx.landlock decides, for the container's first
 * process, startContainer hooks and exec alike.
 *
 * The annotation is the word "default", or a ruleset in JSON:
 *
 *   filesystem.read    paths to read and list; also to execute, unless `execute` is given.
 *   filesystem.write   the same, and all changes except device nodes.
 *   filesystem.execute paths to execute and read; no other file is executed.
 *   filesystem.device  paths to open and use, no more.
 *   network.bind       TCP ports, or the word "any".
 *   network.connect    TCP ports, or the word "any".
 *   scope              "abstract-unix-socket", "signal": they reach no process outside.
 *   log                denials go to the audit log.
 *   enforcement        "best-effort", or "required": an error if the kernel lacks a right.
 *
 * An absent key has its value in "default": everything is read-only except /tmp, devices that store nothing
 * can be used, no port is open, and both scopes are closed. Paths are paths in the container, and each stands
 * for all that is below it. A path that begins with "-" may be missing. */
#pragma once

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
    bool wanted; /* there is an annotation; otherwise the members below do not count */
    bool required;
    int abi;                         /* of the kernel */
    struct landlock_rights enforced; /* the restricted rights that the kernel has */
    struct landlock_rights
        dropped;   /* restricted rights that the kernel lacks (none if required), and a forbidden log */
    bool silenced; /* landlock_plan_silence has dropped the log */
    const struct landlock_path *paths;
    size_t path_count;
    const struct landlock_port *ports;
    size_t port_count;
    int ruleset; /* child, from landlock_prepare to landlock_apply; else -1 */
};

#define LANDLOCK_PLAN_NONE ((struct landlock_plan){.ruleset = -1})

/* True if the process will be restricted: a ruleset is wanted and the kernel has Landlock. */
static inline bool landlock_active(const struct landlock_plan *plan)
{
    return plan->wanted && plan->abi > 0;
}

/* Parent: parse the annotation (NULL: no ruleset is wanted) for a kernel with this ABI (landlock_abi()).
 * Return 0, or -EINVAL with the place in the JSON. Return -ENOTSUP if enforcement is "required" and the
 * kernel lacks a right; the text names the rights and the release of Linux that has them. */
int landlock_plan(struct arena *a, const char *annotation, int abi, struct landlock_plan *out,
                  struct error *err);

/* Parent, after landlock_plan, for a container that may lack mounts: allow reading one more file, which the
 * ruleset does not name, and let the paths that it names be missing. Do nothing if the plan restricts
 * nothing. */
void landlock_plan_allow(struct arena *a, const char *path, struct landlock_plan *plan);

/* Parent, after landlock_plan: drop the ruleset's "log". The ruleset may come from the container image, and
 * every logged denial is a line in the audit log of the host. */
void landlock_plan_silence(struct landlock_plan *plan);

/* Child, in the container's root and before the change of ids: make the ruleset from the paths that exist
 * now. They are opened with the runtime's privilege, so a path may be allowed that the program's user could
 * not look up before. Return 0 or a negative errno. */
int landlock_prepare(struct landlock_plan *plan, struct error *err);

/* Child, after the last mount: restrict the process for good. Call it before the seccomp filter, which may
 * forbid the call. It needs no_new_privs or CAP_SYS_ADMIN in the process' user namespace. From here on, the
 * rules also apply to files that the runtime opens. Return 0 or a negative errno. */
int landlock_apply(struct landlock_plan *plan, struct error *err);

/* Write one object: ABI, enforcement, the rights that are restricted and dropped, each path and port with its
 * rights. */
void landlock_describe(const struct landlock_plan *plan, struct json_out *out);
