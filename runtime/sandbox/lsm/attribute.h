/* The files of /proc/self/attr, by which a process asks a security module for a label or profile;
 * proc_pid_attr(5). The meaning of the texts is the callers'. */
#pragma once

struct error;

struct attribute {
    int fd;           /* -1: not open */
    const char *path; /* below /proc */
    const char *text; /* the text to write */
};

#define ATTRIBUTE_NONE ((struct attribute){.fd = -1})

/* Open the file below the /proc that was verified to be procfs, because the container's /proc may be
 * anything. `fallback` is opened if the kernel does not have `path`; NULL for none. Writing takes no
 * privilege, but only the memory that opened the file may write (Linux 5.13): the process itself, or the
 * program restored in it. The caller owns out->fd. Return 0 or a negative errno. */
int attribute_open(const char *path, const char *fallback, const char *text, struct attribute *out,
                   struct error *err);

/* Open the same file again in a process that was cloned from the owner, which may not write to the owner's
 * file. The descriptor keeps its number. Do nothing if the file is not open. Return 0 or a negative errno. */
int attribute_reopen(const struct attribute *attribute, struct error *err);

/* Write a text: `text` or another one. The error has the path between backquotes, because engines search for
 * it there. missing: the reason to report for -ENOENT, or NULL. Return 0 or a negative errno. */
int attribute_write(const struct attribute *attribute, const char *text, const char *missing,
                    struct error *err);

/* Close the descriptor, if it is open. */
void attribute_close(struct attribute *attribute);
#define cleanup_attribute __attribute__((cleanup(attribute_close)))
