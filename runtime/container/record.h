/* The state directory of a container. Every command but create reads its small record instead of config.json.
 *
 *     <state root>/<id>/state        the record: "key value" lines, replaced as a whole
 *     <state root>/<id>/config.json  a copy of the configuration (changes after create must not matter)
 *     <state root>/<id>/seccomp      the compiled filter, for exec
 *     <state root>/<id>/cgroup       an empty file: the cgroup of the record is the container's own
 *     <state root>/<id>/start        the socket on which a created container waits for start
 *     <state root>/<id>/starting     that socket, or a file of run, until the first process is the program
 *     <state root>/<id>/traceable    an empty file: container/tracing.h
 */
#ifndef PYSBX_CONTAINER_RECORD_H
#define PYSBX_CONTAINER_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "cgroup/cgroup.h"
#include "sandbox/intelrdt.h"
#include "spec/spec.h"

struct error;
struct json_out;

#define RECORD_START_SOCKET "start"
#define RECORD_CONFIG       "config.json"
#define RECORD_SECCOMP      "seccomp"
#define RECORD_STARTING     "starting"
#define RECORD_CGROUP       "cgroup"
#define RECORD_TRACEABLE    "traceable"

/* What a container is at a moment; derived from the record, the process and its cgroup, never stored. */
enum status { STATUS_CREATING, STATUS_CREATED, STATUS_RUNNING, STATUS_PAUSED, STATUS_STOPPED };

/* Written before the first side effect of create, with all that will be made, so that delete --force can take
 * away what a killed create left; written again with the pid. */
struct record {
    const char *id;
    const char *oci_version, *bundle, *rootfs;
    const char *created; /* RFC 3339 */
    uid_t owner;
    pid_t pid;           /* 0 until there is one */
    uint64_t start_time; /* of the pid, clock ticks after boot */
    bool complete;       /* create went through */
    unsigned
        namespaces; /* CLONE_NEW* of those that the container has for itself or joined: what exec enters */
    bool no_new_keyring;
    bool traceable; /* container/tracing.h */
    bool chrooted;  /* no mount namespace of its own: the root is mounted at rootfs and goes with delete */
    const char *mount_namespace; /* the one it was mounted in, by path; NULL: the runtime's */
    struct cgroup_ref cgroup;
    const char *rdt_group, *rdt_monitor; /* resctrl groups made for the container, or NULL */
    struct intelrdt_made rdt_made;
    bool has_seccomp;
    unsigned seccomp_flags;
    const char *seccomp_listener, *seccomp_metadata;
    bool has_poststart, has_poststop; /* config.json has such hooks: only then does start or delete read it */
    bool landlock_log;                /* runtime.json allowed it when the container was created */
    struct str_map annotations;       /* that are honoured */
    struct str_map ignored;           /* that runtime.json does not allow */
};

/* The state root: --root, else a non-empty $XDG_RUNTIME_DIR/pysbx-runtime, else /run/pysbx-runtime (an empty
 * variable counts as unset: rootful Podman passes one). In the arena. */
const char *record_root(struct arena *a, const char *option);

/* Open the state root; with `make` it is made with mode 0700. A root that others may write to is refused.
 * Descriptor or negative errno; -ENOENT (err untouched) when it does not exist and make is false. */
int record_open_root(const char *root, bool make, struct error *err);

/* A container's name: [A-Za-z0-9_+-][A-Za-z0-9_+.-]*, at most 255 characters (NAME_MAX). */
int record_check_id(const char *id, struct error *err);

/* The id of a second container that the runtime creates on behalf of the first, and that delete --force of
 * the first removes as well; in the arena. No container can have it, because it contains a colon. It is short
 * enough to name a directory. */
const char *record_companion_id(struct arena *a, const char *id);

/* Make the container's directory; -EEXIST with a message when the name is taken.
 * Descriptor of the directory. */
int record_make_dir(int rootfd, const char *id, struct error *err);
/* Open it; -ENOENT with the message "container '…' does not exist". */
int record_open_dir(int rootfd, const char *id, struct error *err);
/* One creation or deletion of a container at a time: wait, 10 s at most, for others to end. The lock lasts
 * until record_unlock or until no process has this descriptor any more, so nobody is locked out by a killed
 * runtime. -EBUSY after the wait; -ENOENT with the message "container '…' does not exist" when it was removed
 * meanwhile and the name may be another container's. */
int record_lock(int dirfd, const char *id, struct error *err);
void record_unlock(int dirfd);
/* flock(2) that waits as long as record_lock does. 0, -EWOULDBLOCK after that, or another negative errno. */
int record_wait_for_lock(int fd, int operation);
/* Note that the cgroup of the record is the container's own, because the runtime has made it. */
int record_own_cgroup(int dirfd, const char *id, struct error *err);
/* Is that noted? */
bool record_owns_cgroup(int dirfd);
/* Remove the directory, open as dirfd, and the runtime's files in it. A missing one is success. */
int record_remove_dir(int rootfd, int dirfd, const char *id, struct error *err);

/* The present time as RFC 3339, UTC, with nanoseconds; in the arena. */
const char *record_time(struct arena *a);

int record_write(int dirfd, const struct record *record, struct error *err);
int record_read(struct arena *a, int dirfd, struct record *out, struct error *err);

/* Read the text of a record, which ends with NUL. The text is changed: strings of *out point into it. 0 or
 * -EINVAL. */
int record_parse(struct arena *a, char *text, struct record *out, struct error *err);

/* A verified descriptor of the container's init: the pid of the record, opened as pidfd, with
 * the record's start time. -ESRCH (err untouched) when the process is gone or the number
 * belongs to another process now. */
int record_pidfd(const struct record *record);

enum status record_status(int dirfd, const struct record *record);

/* How far the first process is, whether it runs or is paused. One that waits can become the others later,
 * never the other way round. */
enum record_beginning { RECORD_WAITS, RECORD_IS_STARTED, RECORD_IS_PROGRAM };
enum record_beginning record_beginning(int dirfd, const struct record *record);
const char *status_name(enum status status);

/* The state JSON of the specification with this pid and status: for `state` and the standard input of hooks.
 * Annotations are all that the configuration has; "ignoredAnnotations" names those without effect, for hooks
 * that judge the container (the specification lets a runtime add properties). `extended` adds rootfs, created
 * and owner, which `state` shows. */
void record_write_state(const struct record *record, const char *status, pid_t pid, bool extended,
                        struct json_out *out);

#endif
