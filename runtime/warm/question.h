/* Questions about a process that imports ask the kernel without a file, and whose answers a container
 * decides. The manifest of a snapshot has the question and a hash of the answer, as for files of the kernel:
 *   limit N    the resource limit with this number, getrlimit(2).
 *   umask      umask(2).
 *   affinity   the set of CPUs, sched_getaffinity(2): a number in hexadecimal with one bit for each.
 *   scheduler  policy, priority and nice value, sched(7).
 *   kind PATH  the type of the file at a path, without following a link.
 *   mode PATH  type, mode, owner and group of a device or of a directory beneath /dev, in the container.
 *   mount PATH whether a directory belongs to another file system than the one above it, as os.path.ismount()
 * looks.
 *   write PATH whether access(2) allows the process to write to a file or directory.
 *   hidden PATH whether another mount is above a file of /proc or /sys, or above a directory on the way to
 * it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define QUESTION_LIMIT  "limit "
#define QUESTION_KIND   "kind "
#define QUESTION_MODE   "mode "
#define QUESTION_MOUNT  "mount "
#define QUESTION_WRITE  "write "
#define QUESTION_HIDDEN "hidden "

#define QUESTION_AFFINITY "affinity"

#define QUESTION_CPUS_MAX   8192 /* of the kernel: CONFIG_NR_CPUS */
#define QUESTION_ANSWER_MAX ((size_t)QUESTION_CPUS_MAX / 4 + 64)

/* Return whether the text is one of these questions. */
bool question_is_valid(const char *question);

/* Answer a valid question for this process. The agent's probe writes the same texts (answer() in
 * probe_look.py). Makes system calls only. Return the size of the answer in bytes, which is less than
 * QUESTION_ANSWER_MAX. */
ssize_t question_answer(const char *question, char out[static QUESTION_ANSWER_MAX]);
