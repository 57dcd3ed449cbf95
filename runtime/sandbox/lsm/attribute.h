/* The files of /proc/self/attr, by which a process tells a security module what label or profile to give it;
 * proc_pid_attr(5). Knows nothing of what is written there. */
#ifndef PYSBX_SANDBOX_LSM_ATTRIBUTE_H
#define PYSBX_SANDBOX_LSM_ATTRIBUTE_H

struct error;

struct attribute {
    int fd;           /* -1: not open */
    const char *path; /* below /proc */
    const char *text; /* what is to be written */
};

#define ATTRIBUTE_NONE ((struct attribute){.fd = -1})

/* Open the file, beneath the /proc that was checked to be procfs: that of the container may be anything.
 * `fallback` is opened where the kernel has no `path`; NULL for none. Writing takes no privilege, but only
 * the memory that opened it may write (Linux 5.13): the process itself, or what it was restored to.
 * 0 or negative errno. */
int attribute_open(const char *path, const char *fallback, const char *text, struct attribute *out,
                   struct error *err);

/* Write a text, `text` or another. The error has the path between backticks, by which engines find it;
 * missing: what -ENOENT means there, NULL for nothing special. 0 or negative errno. */
int attribute_write(const struct attribute *attribute, const char *text, const char *missing,
                    struct error *err);

void attribute_close(struct attribute *attribute);

#endif
