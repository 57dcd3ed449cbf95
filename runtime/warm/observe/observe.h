/* What the imports of a probe look at, seen from outside Python: a seccomp filter stops every system call
 * that names a file, asks for a property of the host, starts a process or reaches for the network, and the
 * runtime notes it and lets it go on (seccomp_unotify(2), SECCOMP_USER_NOTIF_FLAG_CONTINUE). The note is for
 * the probe's own benefit, so an import that rewrites a path after it was read deceives only containers of
 * its own image.
 *
 * Records, each a letter, a text and NUL, in no order and each once, but for "u":
 *   o  path that was opened for reading, or executed
 *   s  path of which the status was asked for
 *   p  path of which it was asked whether it is there, or that was to be made, changed or removed
 *   c  path of a socket that was connected to
 *   f  path of which the file system's properties were asked for, such as its free space
 *   e  variable that the C library was asked for
 *   u  the name of the machine was asked for
 *   F  a process was started that may run code of its parent
 *   x  path of a program that was executed, also "o"
 *   N  another machine was to be reached, or the network interfaces were asked for
 *   B  the imports begin: what was noted before is noted again, if it happens again
 *   H  what else makes no snapshot: a phrase that follows "the imports" */
#ifndef PYSBX_WARM_OBSERVE_OBSERVE_H
#define PYSBX_WARM_OBSERVE_OBSERVE_H

#include <stddef.h>

#include "warm/observe/filter.h"

struct arena;
struct error;

struct observer; /* in the arena it was made in */

/* An observer for the listener, which stays the caller's. 0 or negative errno: the kernel knows no such
 * listener. */
int observer_new(struct arena *a, int listener, enum observe_mode mode, struct observer **out,
                 struct error *err);

/* Serve one system call that waits; to be called when poll(2) says that the listener can be read. 0, also
 * when its process has ended meanwhile, or negative errno: -ENOTSUP for an import that would wait for ever.
 */
int observer_serve(struct observer *o, struct error *err);

/* Note nothing from now on, and say what was noted. The data lies in the arena. */
void observer_stop(struct observer *o, const char **data, size_t *size);

#endif
