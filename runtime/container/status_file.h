/* The file of --status-file: how the program began and ended, for callers to which an exit code says too
 * little. */
#pragma once

#include "base/error.h"
#include "cgroup/cgroup.h"

/* Open the file for writing, and create or empty it, before the container is made. It may be a pipe. Return a
 * descriptor that the caller owns, -1 if path is NULL, or a negative errno with *err. */
int status_file_open(const char *path, struct error *err);

/* Write the line "cold CODE REASON" or "error CODE DETAIL", in which hidden characters are escaped. Do
 * nothing if fd is -1. A failure is not reported: the line at the end fails too. */
void status_file_cold(int fd, enum error_kind kind, const char *reason);
void status_file_error(int fd, const struct error *err);

/* Write one line: "exited CODE" or "killed SIGNAL", as wait(2) has it in `status`, and " oom-kills N" if the
 * kernel has OOM-killed processes of the cgroup. Return 0 or a negative errno. */
int status_file_write(int fd, int status, const struct cgroup_ref *cgroup, struct error *err);
