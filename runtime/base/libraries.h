/* The two programs. A static program contains everything that a start needs. The dynamic loader, and the CPU
 * features that glibc reads with cpuid (which exits a virtual machine each time), take longer than most
 * commands. Some commands also need libseccomp, libselinux, libsystemd or the host's name services, which
 * only a dynamic program can load (dlopen(3)). So there is a second program, of the same sources, and the
 * first one executes it if necessary. If no static program can be built, the dynamic one is the only one. */
#pragma once

struct error;

/* The name of the dynamic program. It is next to the static one, or in ../libexec from there. */
#define LIBRARIES_PROGRAM "pysbx-runtime-dynamic"

/* To be called before dlopen(3). The dynamic program returns 0. The static one executes the dynamic one with
 * the same arguments, environment and streams, which begins the command anew. It returns -ENOTSUP if that
 * program is missing, or after libraries_settle. */
int libraries_require(struct error *err);

/* To be called before the command changes something, and in a child: the command can no longer begin anew. */
void libraries_settle(void);
