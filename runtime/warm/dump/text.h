/* What the files of /proc/PID say of a process (proc(5)). Parsers only: no system call. A process chooses a
 * part of these texts itself: its command, the names of its files. */
#ifndef PYSBX_WARM_DUMP_TEXT_H
#define PYSBX_WARM_DUMP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct snapshot_memory;
struct snapshot_vdso;

/* What fdinfo says of a descriptor. */
struct dump_descriptor {
    uint64_t position;
    unsigned flags; /* of open(2), as the kernel has them */
    bool has_lock;
};

/* Parse /proc/PID/fdinfo/N. False if position or flags are missing. */
bool dump_text_descriptor(const char *text, struct dump_descriptor *out);

/* Parse /proc/PID/stat for the addresses of the program; brk and auxv stay as they are. False if a field is
 * missing. */
bool dump_text_layout(const char *text, struct snapshot_memory *out);

/* The pid of a process in the last of its namespaces, by /proc/PID/status. 0 if it is missing. */
int dump_text_own_pid(const char *text);

/* The number of threads and whether a signal is pending, by /proc/PID/status. False if one of the lines is
 * missing. */
bool dump_text_threads(const char *text, unsigned long *threads, bool *pending);

/* The kernel's areas by /proc/PID/maps, whose text is changed: the first `room` of them. Return their number.
 */
size_t dump_text_vdso(char *text, struct snapshot_vdso *out, size_t room);

#endif
