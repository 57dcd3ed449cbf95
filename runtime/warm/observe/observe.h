/* Observe from outside Python what the imports of a probe ask for. A seccomp filter stops every system call
 * that names a file, asks for a property of the host, starts a process or uses the network. The runtime notes
 * the call and lets it continue (seccomp_unotify(2), SECCOMP_USER_NOTIF_FLAG_CONTINUE). The note only serves
 * the probe, so an import that rewrites a path after it was read deceives only containers of its own
 * container image.
 *
 * Records consist of a letter, a text and NUL, in no order. Each occurs once, except for "u":
 *   o  path that was opened for reading, or executed.
 *   s  path whose status was read.
 *   p  path that was tested for existence, or that the call changes or removes.
 *   m  path that the call creates, also "p".
 *   c  path of a socket that was connected to.
 *   f  path whose file system was asked for its properties, such as its free space.
 *   e  variable that was read through the C library.
 *   u  the host name was read.
 *   t  a standard stream was asked whether it is a terminal.
 *   r  random bytes were drawn.
 *   d  fstat(2) of a standard stream.
 *   q  question that was asked about the process: warm/question.h.
 *   F  a process was started that may run code of its parent.
 *   x  path of a program that was executed, also "o".
 *   N  the imports tried to reach another host, or asked for the network interfaces.
 *   P  the interpreter printed something before the imports.
 *   B  the imports begin: earlier records are noted again if they occur again.
 *   H  any other obstacle to a snapshot: a phrase that follows "the imports".
 * The texts of r and d are the address of the caller in hexadecimal, or 0, ":" and the number of bytes. */
#pragma once

#include <stddef.h>

#include "warm/observe/filter.h"

struct arena;
struct error;

struct observer; /* in the arena passed to observer_new */

/* Make an observer for the listener, which still belongs to the caller. Return 0 or negative errno: the
 * kernel does not know such a listener. */
int observer_new(struct arena *a, int listener, enum observe_mode mode, struct observer **out,
                 struct error *err);

/* Serve one waiting system call; call this when poll(2) reports that the listener is readable. Return 0, also
 * if its process has ended meanwhile, or negative errno: -ENOTSUP for an import that would wait forever. */
int observer_serve(struct observer *o, struct error *err);

/* Note nothing from now on, and return the records. The data is in the arena. */
void observer_stop(struct observer *o, const char **data, size_t *size);
