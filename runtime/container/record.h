/* The state directory of a container. Every command but create reads its small record instead of config.json.
 *
 *     <state root>/<id>/state        the record: "key value" lines, replaced as a whole
 *     <state root>/<id>/config.json  a copy of the configuration (changes after create must not matter)
 *     <state root>/<id>/seccomp      the compiled filter, for exec
 *     <state root>/<id>/cgroup       an empty file: the cgroup of the record is the container's own
 *     <state root>/<id>/start        the socket on which a created container waits for start
 *     <state root>/<id>/starting     that socket, or a file of run, until the first process is the program;
 *                                    none if the record says `executes`
 *     <state root>/<id>/traceable    an empty file: container/tracing.h
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "cgroup/cgroup.h"
#include "spec/spec.h"

struct error;
struct json_out;

#define RECORD_START_SOCKET "start"
#define RECORD_CONFIG       "config.json"
#define RECORD_SECCOMP      "seccomp"
#define RECORD_STARTING     "starting"
#define RECORD_CGROUP       "cgroup"
#define RECORD_TRACEABLE    "traceable"

/* The status of a container at a moment. It is derived from the record, the process and its cgroup, and never
 * stored. */
enum status {
    STATUS_CREATING,
    STATUS_CREATED,
    STATUS_RUNNING,
    STATUS_PAUSED,
    STATUS_STOPPED,
    STATUS_DAMAGED
};

/* The record is written before the first side effect of create, and names all that will be made. So delete
 * --force can remove what a killed create left. It is written again with the pid. */
struct record {
    const char *id;
    const char *oci_version, *bundle, *rootfs;
    const char *created; /* RFC 3339 */
    uid_t owner;
    pid_t pid;           /* 0 before init exists */
    uint64_t start_time; /* of init: clock ticks after boot */
    bool complete;       /* create has succeeded */
    /* Of run: the first process executes the program without asking again. Then create has succeeded, and the
     * kernel says so (struct proc_stat). No step of the runtime lies between the record and the program. */
    bool executes;
    /* CLONE_NEW* of the namespaces that the container has for itself or has joined: exec enters them. */
    unsigned namespaces;
    bool no_new_keyring;
    bool traceable; /* container/tracing.h */
    bool has_init;  /* `pid` is a minimal init, whose first child is the program: container/first.h */
    /* `pid` is not number 1 of a pid namespace, so its end does not end the container's other processes. */
    bool shares_pids;
    /* The container has no mount namespace of its own. Its root is mounted at rootfs, and delete unmounts
     * it. */
    bool chrooted;
    /* The path of the mount namespace in which the root was mounted; NULL: the runtime's. */
    const char *mount_namespace;
    struct cgroup_ref cgroup;
    bool has_seccomp;
    unsigned seccomp_flags;
    const char *seccomp_listener, *seccomp_metadata;
    /* config.json has such hooks. Only then does start or delete read it. */
    bool has_poststart, has_poststop;
    /* It has linux.memoryPolicy or linux.personality. Only then does exec read it. */
    bool has_process_settings;
    /* runtime.json allowed the "log" of Landlock's rules when the container was created. */
    bool landlock_log;
    struct str_map annotations; /* those that the runtime honours */
    struct str_map ignored;     /* those that runtime.json does not allow */
};

/* Return the path of the state root, in the arena: --root, else $XDG_RUNTIME_DIR/pysbx-runtime, else
 * /run/pysbx-runtime. An empty variable counts as unset, because rootful Podman passes one. */
const char *record_root(struct arena *a, const char *option);

/* Open the state root. With `make`, create it with mode 0700 if it is missing. A root that other users may
 * write to is refused. Return the descriptor or a negative errno. -ENOENT, with err untouched, if it does not
 * exist and `make` is false. */
int record_open_root(const char *root, bool make, struct error *err);

/* Check a container's name: [A-Za-z0-9_+-][A-Za-z0-9_+.-]*, at most 255 characters (NAME_MAX). Return 0 or a
 * negative errno. */
int record_check_id(const char *id, struct error *err);

/* Return, in the arena, the id of a second container that the runtime creates on behalf of the first one.
 * delete --force of the first one removes the second as well. No other container can have this id, because it
 * contains a colon. It is short enough to name a directory. */
const char *record_companion_id(struct arena *a, const char *id);

/* Return -EEXIST with a message if the name of a container is taken. */
int record_check_new(int rootfd, const char *id, struct error *err);

/* Make the container's directory. Return its descriptor or a negative errno; -EEXIST with a message if the
 * name is taken. */
int record_make_dir(int rootfd, const char *id, struct error *err);
/* Open the container's directory. Return its descriptor or a negative errno; -ENOENT with the message
 * "container '…' does not exist". */
int record_open_dir(int rootfd, const char *id, struct error *err);
/* Allow one creation or deletion of a container at a time: wait for others to end, for at most 10 s. The lock
 * lasts until record_unlock, or until no process has this descriptor open. So a killed runtime locks no other
 * process out. Return 0, -EBUSY after the wait, or another negative errno. -ENOENT with the message
 * "container '…' does not exist" if it was removed meanwhile; the name may be another container's by then. */
int record_lock(int dirfd, const char *id, struct error *err);
/* Release the lock of record_lock. */
void record_unlock(int dirfd);
/* Call flock(2), and wait as long as record_lock does. Return 0, -EWOULDBLOCK after that time, or another
 * negative errno. */
int record_wait_for_lock(int fd, int operation);
/* Set the error of a write to the state directory of a container, which it names: a full disk has to be
 * found. */
int record_write_error(int dirfd, int code, const char *name, const char *id, struct error *err);
/* Record that the cgroup is the container's own, because the runtime has made it. Return 0 or a negative
 * errno. */
int record_own_cgroup(int dirfd, const char *id, struct error *err);
/* Return whether that is recorded. */
bool record_owns_cgroup(int dirfd);
/* Remove the directory, open as dirfd, and the runtime's files in it. A missing one is success. Return 0 or a
 * negative errno. */
int record_remove_dir(int rootfd, int dirfd, const char *id, struct error *err);

/* Return the current time as RFC 3339, UTC, with nanoseconds, in the arena. */
const char *record_time(struct arena *a);

/* Replace the record on disk as a whole. Return 0 or a negative errno. */
int record_write(int dirfd, const struct record *record, struct error *err);
/* Read the record of this container from disk. Its strings live in the arena. A record that lacks something,
 * or is that of another container, is refused. Return 0 or a negative errno. */
int record_read(struct arena *a, int dirfd, const char *id, struct record *out, struct error *err);

/* Parse the text of a record, which ends with NUL. The text is changed, and strings of *out point into it.
 * Return 0 or -EINVAL. */
int record_parse(struct arena *a, char *text, struct record *out, struct error *err);

/* Return a verified descriptor of the container's init. It is opened from the pid of the record, and its
 * process has the record's start time. -ESRCH, with err untouched, if the process is gone or the number
 * belongs to another process now. */
int record_pidfd(const struct record *record);

/* Return a verified descriptor of the container's program, to which signals are sent. That is its init,
 * unless has_init is set. Then it is the first child of the init, or the init itself if it has no child:
 * before `start`, and at the end. Errors are those of record_pidfd. */
int record_program(const struct record *record);

/* Return the status of the container at this moment. dirfd is its state directory. */
enum status record_status(int dirfd, const struct record *record);

/* How far the first process is, whether it runs or is paused. A process that waits can advance to the other
 * values, never back. */
enum record_beginning { RECORD_WAITS, RECORD_IS_STARTED, RECORD_IS_PROGRAM };
/* Return how far the first process is. dirfd is the state directory of the container. */
enum record_beginning record_beginning(int dirfd, const struct record *record);
/* Return the name of a status in the specification, such as "running". */
const char *status_name(enum status status);

/* Write the state JSON of the specification with this pid and status, for `state` and the standard input of
 * hooks. It has all annotations of the configuration. "ignoredAnnotations" names those without effect, for
 * hooks that judge the container; the specification lets a runtime add properties. `extended` adds rootfs,
 * created and owner, which `state` shows. */
void record_write_state(const struct record *record, const char *status, pid_t pid, bool extended,
                        struct json_out *out);
