/* The pid file that engines ask for. */
#ifndef PYSBX_CONTAINER_PID_FILE_H
#define PYSBX_CONTAINER_PID_FILE_H

#include <sys/types.h>

struct error;

/* Write the pid in decimal, complete or not at all: engines read the file once. */
int pid_file_write(const char *path, pid_t pid, struct error *err);

#endif
