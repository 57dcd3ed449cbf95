/* The file of --status-file: how the program ended, for callers to which an exit code says too little. */
#ifndef PYSBX_CONTAINER_STATUS_FILE_H
#define PYSBX_CONTAINER_STATUS_FILE_H

#include "cgroup/cgroup.h"

struct error;

/* Open the file for writing, and create or empty it, before the container is made. It may be a pipe. Return a
 * descriptor that the caller owns, -1 if path is NULL, or a negative errno with *err. */
int status_file_open(const char *path, struct error *err);

/* Write one line: "exited CODE" or "killed SIGNAL", as wait(2) has it in `status`, and " oom-kills N" if the
 * kernel has OOM-killed processes of the cgroup. Return 0 or a negative errno. */
int status_file_write(int fd, int status, const struct cgroup_ref *cgroup, struct error *err);

#endif
