/* Find the file of a container's argv[0], and decide whether it is a CPython that can be saved and
 * restored. */
#pragma once

#include <stdbool.h>

#include "warm/file_identity.h"

struct arena;
struct root_view;

struct interpreter {
    const char *program; /* the path of argv[0] in the container: absolute, links not followed */
    unsigned minor;      /* Python 3.minor */
    struct file_identity identity;
    dev_t device; /* of that file */
    bool unseen;  /* the program does not exist, is not visible from outside, or may not be executed */
};

/* True for a path whose last component is python, python3 or python3.N. */
bool interpreter_is_named_so(const char *argv0);

/* Find and examine the interpreter. The file at the end of the links is a program for this machine and glibc,
 * and its name python3.N, or else its content, tells the version. Return NULL, or the reason why not, worded
 * for a user (static, or in the arena). */
const char *interpreter_find(struct arena *a, const struct root_view *view, const char *argv0,
                             const char *search_path, const char *cwd, struct interpreter *out);

/* Return why execve(2) of the file changes the credentials of a process, or NULL if it does not: set-id bits
 * and file capabilities. Both also change the ambient set, AT_SECURE, dumpable and the personality. Mount
 * options and no_new_privs that switch them off are not considered. `fd` is open for reading. */
const char *interpreter_privileges(int fd);
