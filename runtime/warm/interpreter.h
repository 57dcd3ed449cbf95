/* Which file a container's argv[0] is, and whether it is a CPython that can be saved and restored. */
#ifndef PYSBX_WARM_INTERPRETER_H
#define PYSBX_WARM_INTERPRETER_H

#include <stdbool.h>

#include "warm/file_identity.h"

struct arena;
struct root_view;

struct interpreter {
    const char *program; /* the path that argv[0] stands for in the container: absolute, links not followed */
    unsigned minor;      /* Python 3.minor */
    struct file_identity identity;
    bool unseen; /* there is no such program, or it is not seen from outside, or may not be executed */
};

/* True for a path whose last component is python, python3 or python3.N. */
bool interpreter_is_named_so(const char *argv0);

/* Find and examine it: the file that the links lead to is called python3.N, and is a program for this machine
 * and glibc. NULL, or the reason why not, in words for a user (static, or in the arena). */
const char *interpreter_find(struct arena *a, const struct root_view *view, const char *argv0,
                             const char *search_path, const char *cwd, struct interpreter *out);

#endif
