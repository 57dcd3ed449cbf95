/* The two programs. What a start needs is in a static one: the dynamic loader, and what glibc asks of the
 * processor (cpuid, which leaves a virtual machine each time), take longer than most commands. What some
 * commands need besides, libseccomp, libselinux, libsystemd and the host's name services, only a dynamic
 * program can load (dlopen(3)). So there is a second one, of the same sources, and the first becomes it when
 * it has to. Where no static program can be built, the dynamic one is the only one. */
#ifndef PYSBX_BASE_LIBRARIES_H
#define PYSBX_BASE_LIBRARIES_H

struct error;

/* The name of the dynamic program, beside the static one or in ../libexec from there. */
#define LIBRARIES_PROGRAM "pysbx-runtime-dynamic"

/* To be called before dlopen(3). In the dynamic program: 0. In the static one: executes the other with the
 * same arguments, environment and streams, and so begins the command anew; or -ENOTSUP when that is missing,
 * or after libraries_settle. */
int libraries_require(struct error *err);

/* Something is going to be changed, or this is a child: the command can no longer begin anew. */
void libraries_settle(void);

#endif
