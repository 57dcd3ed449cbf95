/* Parse the files of /proc/PID (proc(5)), without system calls. The process itself chooses parts of these
 * texts: its command, the names of its files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct snapshot_memory;
struct snapshot_vdso;

/* The content of fdinfo for a descriptor. */
struct dump_descriptor {
    uint64_t position;
    unsigned flags; /* of open(2), in the kernel's encoding */
    bool has_lock;
};

/* The first line of a VMA in /proc/PID/maps and smaps. */
struct dump_vma_line {
    uint64_t start, end, offset;
    char perms[5];
    unsigned major, minor; /* the file: device of its file system, and inode; 0 for memory */
    uint64_t inode;
    const char *name; /* in the text */
};

/* Parse such a line. False if a field is missing. */
bool dump_text_vma(const char *line, struct dump_vma_line *out);

/* Parse /proc/PID/fdinfo/N. False if position or flags are missing. */
bool dump_text_descriptor(const char *text, struct dump_descriptor *out);

/* Parse /proc/PID/stat for the addresses of the program; brk and auxv stay as they are. False if a field is
 * missing. */
bool dump_text_layout(const char *text, struct snapshot_memory *out);

/* Return the pid of a process in the last of its namespaces, from /proc/PID/status; 0 if it is missing. */
int dump_text_own_pid(const char *text);

/* Read the number of threads and whether a signal is pending, from /proc/PID/status. False if one of the
 * lines is missing. */
bool dump_text_threads(const char *text, unsigned long *threads, bool *pending);

/* Parse /proc/PID/status for the signals that are ignored or caught; bit n is signal n + 1. False if a field
 * is missing. */
bool dump_text_signals(const char *text, uint64_t *set);

/* Read the first `room` vdso and vvar areas from /proc/PID/maps, whose text is changed. Return their
 * number. */
size_t dump_text_vdso(char *text, struct snapshot_vdso *out, size_t room);
