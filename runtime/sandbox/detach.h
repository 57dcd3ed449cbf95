/* Detach a process from the runtime's binary, so that a program in the container cannot reach that file of
 * the host. */
#pragma once

struct error;

/* The runtime copies the constant segments of its program into a file in memory (memfd_create(2)) that its
 * child has open, too. It does so while the child mounts, when it has nothing else to do. */

/* Runtime, before the clone: create the empty file. Return its descriptor, or -1 if the kernel refuses it;
 * then the child makes the copy, which takes it longer. */
int detach_prepare(void);
/* Runtime, after the clone: fill the file, seal it and close it. *fd becomes -1. */
void detach_fill(int *fd);

/* Child: replace the mapped program by the copy, at the same addresses, and /proc/self/exe by the copy's
 * file. The file is sealed and is not a program. Then a container program that is /proc/self/exe, or names it
 * in its "#!" line, does not execute the runtime's binary (CVE-2019-5736). No process can open that binary
 * for writing through this one, either.
 *
 * The child has one thread. Afterwards it may only execve or exit, by code that container/child/finish.h
 * reaches: the rest of the static program is unmapped.
 *
 * copy: from detach_prepare, or -1. It may still be empty, and stays the caller's. exe: a file of the
 * container to show as /proc/self/exe instead of the copy, open for reading, or -1. It is the program that
 * the process becomes without execve.
 *
 * Needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN in the user namespace, and CONFIG_CHECKPOINT_RESTORE
 * (prctl(2), PR_SET_MM_MAP, Linux 3.18). Return 0 or a negative errno. */
int detach_from_binary(int copy, int exe, struct error *err);
