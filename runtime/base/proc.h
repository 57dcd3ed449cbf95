/* The trusted /proc of the runtime: opened once, verified to be procfs, and used for every access to a
 * process. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct error;
struct stat;

/* Return an O_PATH descriptor of the runtime's /proc, which is opened by the first call and kept until the
 * process ends. -EINVAL if /proc is not a procfs. A forked child inherits it, and may use it even in the
 * container's root: /proc/self is the child there too. */
int proc_root(struct error *err);

/* Open a file below /proc ("self/attr/exec", "sys/net/…", "123/uid_map") with flags of open(2): on the same
 * mount and without magic links (path_open_beneath). Return a descriptor or negative errno; err names the
 * file. */
int proc_open(const char *path, int flags, struct error *err);

/* Write a value to such a file with one write(2). 0 or negative errno; err names "/proc/<path>" and the
 * value. */
int proc_write(const char *path, const char *value, struct error *err);

/* Open the file of a descriptor again, also of one of O_PATH, with flags of open(2): another file may have
 * its path by now. O_CLOEXEC is added. Return a descriptor or negative errno. */
int proc_reopen(int fd, int flags);

/* Open a path in this process's root, which may be the container's, for reading. Only a regular file is
 * opened, because opening a device or a pipe has effects, and no magic link is followed. Return a descriptor
 * or negative errno, -EINVAL if the file is not regular. */
int proc_open_regular(const char *path);

/* Open the directory of a process. It never refers to another process: after the end of this one, reads below
 * it fail, even if its number is in use again. Return a descriptor or negative errno. */
int proc_open_process(pid_t pid, struct error *err);

/* Return whether the process of this directory is in the pid namespace `ns` (pid_namespaces(7)), which is the
 * result of fstatat(2) for "ns/pid" of a member. The caller holds a descriptor of that member's directory;
 * otherwise the namespace may end and another may get its inode number. 1, 0, or negative errno, for example
 * if the caller may not trace the process. */
int proc_in_pid_namespace(int dir, const struct stat *ns);

/* Fields of /proc/PID/stat (proc_pid_stat(5)). */
struct proc_stat {
    char state;
    bool executed; /* a program, since the process was cloned (PF_FORKNOEXEC of the flags) */
    long threads;
    /* In clock ticks after boot. Together with the pid, it identifies a process until the machine is
     * rebooted. */
    uint64_t start_time;
};

/* Read the fields of a process. A zombie is one only when its last thread has ended. 0 or negative errno,
 * -ESRCH if there is no such process. */
int proc_read_stat(pid_t pid, struct proc_stat *out);

/* Parse the text of /proc/PID/stat, in which the process chooses the command, so it may hold any byte. False
 * if a field is missing. */
bool proc_parse_stat(const char *text, struct proc_stat *out);
