/* The pid file that engines ask for. */
#ifndef PYSBX_CONTAINER_PID_FILE_H
#define PYSBX_CONTAINER_PID_FILE_H

#include <sys/types.h>

struct error;

/* Write the pid in decimal, atomically, because engines read the file once. Return 0 or a negative errno. */
int pid_file_write(const char *path, pid_t pid, struct error *err);

#endif
