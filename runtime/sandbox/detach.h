/* Cut the process off from the runtime's binary, so that nothing in the container can reach the file on the
 * host. */
#ifndef PYSBX_SANDBOX_DETACH_H
#define PYSBX_SANDBOX_DETACH_H

struct error;

/* The copy of the program's constant segments is made by the runtime, which has nothing to do while its child
 * mounts, in a file in memory that both have open (memfd_create(2)). */

/* Runtime, before the clone: the file, still empty; -1 when there is none to be had, which costs the child
 * some time. */
int detach_prepare(void);
/* Runtime, after the clone: fill it, seal it and close it; *fd becomes -1. */
void detach_fill(int *fd);

/* Child, single-threaded, that will only execve or exit, and only by what container/child/finish.h reaches,
 * for the rest of the static program's code is unmapped: replace the process' own mapped program by the copy,
 * at the same addresses, and /proc/self/exe by the copy's file, which is sealed and no program. After that a
 * container program that is, or whose "#!" line names, /proc/self/exe cannot be executed instead of being the
 * runtime's binary (CVE-2019-5736), and nothing can open that binary for writing through the process. copy
 * may be -1 or not filled yet; it stays the caller's. exe: what /proc/self/exe is to be instead of the copy,
 * a program of the container that the process becomes without execve, open for reading; -1 for the copy.
 * Needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN in the user namespace and CONFIG_CHECKPOINT_RESTORE
 * (prctl(2), PR_SET_MM_MAP, Linux 3.18). 0 or negative errno. */
int detach_from_binary(int copy, int exe, struct error *err);

#endif
