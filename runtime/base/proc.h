/* The trusted /proc of the runtime: opened once, verified to be procfs, used for every
 * access to a process. */
#ifndef PYSBX_BASE_PROC_H
#define PYSBX_BASE_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct error;
struct stat;

/* Descriptor (O_PATH) of the runtime's /proc; opened at the first call and kept for the life of the process.
 * Fails with -EINVAL when /proc is not a procfs. A forked child inherits it and may use it after the
 * container's root has been entered: /proc/self there is the child all the same. */
int proc_root(struct error *err);

/* Open a file below /proc ("self/attr/exec", "sys/net/…", "123/uid_map") with open(2) flags:
 * beneath it, on the same mount, without magic links (path_open_beneath). Descriptor or
 * negative errno; err says which file. */
int proc_open(const char *path, int flags, struct error *err);

/* Write a value to such a file in one write(2). 0 or negative errno; err names
 * "/proc/<path>" and the value. */
int proc_write(const char *path, const char *value, struct error *err);

/* Open for reading what `path` names in this process' root, which may be the container's. Only a regular file
 * is ever opened, for a device or a pipe does something when it is, and no magic link is followed on the way.
 * -EINVAL: it is something else. */
int proc_open_regular(const char *path);

/* The directory of a process, which stays that of this process when it has ended and its number is another's:
 * reads beneath it fail then. Descriptor or negative errno. */
int proc_open_process(pid_t pid, struct error *err);

/* Is the process of this directory in the pid namespace that fstatat(2) says `ns` of, "ns/pid" of a process
 * that is in it (pid_namespaces(7))? The caller holds that process, or the namespace may be gone and its
 * inode number another's. 1, 0, or negative errno: who may not trace the process may not know. */
int proc_in_pid_namespace(int dir, const struct stat *ns);

/* Start time of a process in clock ticks after boot (field 22 of /proc/PID/stat): with the pid it identifies
 * a process for as long as the machine is up. *state, if wanted, is its one-letter state. 0 or negative errno
 * (-ESRCH when there is no such process). */
int proc_start_time(pid_t pid, uint64_t *ticks, char *state);

/* Has the process executed a program since it was cloned (PF_FORKNOEXEC of the flags, field 9)? 1, 0, or
 * negative errno. */
int proc_has_executed(pid_t pid);

/* What the text of /proc/PID/stat says (proc_pid_stat(5)). */
struct proc_stat {
    char state;
    unsigned long flags;
    long threads;
    uint64_t start_time; /* clock ticks after boot */
};

/* Parse it; the command, which a process chooses, may hold anything. False if a field is missing. */
bool proc_parse_stat(const char *text, struct proc_stat *out);

#endif
