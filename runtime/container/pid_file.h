/* Telling an engine the process of a container or of exec: by a pid file, or by a pidfd over a socket. */
#pragma once

#include <sys/types.h>

struct error;

/* Write the pid in decimal, atomically, because engines read the file once. Return 0 or a negative errno. */
int pid_file_write(const char *path, pid_t pid, struct error *err);

/* Connect to the socket of --pidfd-socket, before anything is made. Return a descriptor that the caller owns,
 * -1 if `path` is NULL, or another negative errno. */
int pid_file_connect(const char *path, struct error *err);

/* Send the pidfd over that socket, with the name that runc gives it. Return 0 or a negative errno. */
int pid_file_send(int socket, int pidfd, struct error *err);
