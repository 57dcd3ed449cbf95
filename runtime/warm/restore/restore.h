/* Turn the calling process, which is about to become the container's program, into the interpreter of a
 * snapshot. No execve: the process is in the container's namespaces, root, cgroup and identity already; what
 * is left is to exchange its memory. Everything that can fail happens in restore_prepare, where the caller
 * can still fall back to execve; restore_go does not return. */
#ifndef PYSBX_WARM_RESTORE_RESTORE_H
#define PYSBX_WARM_RESTORE_RESTORE_H

#include <linux/capability.h>
#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "warm/params.h"

struct error;
struct image;
struct restore;

/* What remains to be done after the memory was exchanged, by the restorer itself, so that the container's
 * filter need not allow what the restorer does. What comes after the filter is one close(2), if there is a
 * descriptor for errors, prctl(2) PR_SET_DUMPABLE and rt_sigreturn(2); with filter_by_privilege also
 * capset(2), if capabilities are given, write(2) and close(2) for each label. */
struct restore_finish {
    const struct sock_fprog *filter; /* NULL for none */
    unsigned filter_flags;
    const struct __user_cap_data_struct *caps; /* two elements; NULL: leave as they are */
    /* What is written to /proc/self/attr/current, each by one write(2), when nothing is left to do that the
     * new label may forbid; with filter_by_privilege that is after the filter. No text: nothing. */
    struct restore_label {
        int fd;
        const char *text;
    } labels[2];
    bool filter_by_privilege; /* loading it takes CAP_SYS_ADMIN: the capabilities are set after it, which it
                                 must allow then */
    /* Every descriptor from this one on is closed before the filter, and below it those with O_CLOEXEC. */
    unsigned close_from;
};

struct restore_request {
    const struct image *image; /* the snapshot, which image_open has checked */
    int file;                  /* its file, open for reading */
    int root;  /* the container's root: its files are opened beneath it and compared with the image */
    int agent; /* the agent, in a sealed memfd (warm/agent/agent.h) */
    const char *comm;
    char *const *argv, *const *envp;
    enum warm_program program;
    size_t program_index;
    bool prefetch;     /* make the pages of the image's write set private at once */
    bool beside;       /* map the snapshot now, if this process has nothing where it belongs */
    int error_message; /* the first word of what is sent when restore_go fails: SYNC_ERROR */
    struct restore_finish finish;
};

/* Why no snapshot can be made or restored by this build of the runtime, in words, or NULL. */
const char *restore_unavailable(void);

/* Map what of the snapshot `image` takes nothing but its file, `file`, while the rest of the request is not
 * known yet, or what it names is not there. With `copy`, pages of its write set that lie there are made
 * private, which takes memory: it counts for the cgroup, and lies on the node, that the caller has now. NULL:
 * the machine is another, or this process has something where the snapshot belongs, and nothing has changed.
 */
struct restore *restore_begin(const struct image *image, int file, bool copy);

/* Goes on with *out, which restore_begin has made for the same image, or is NULL.
 *
 * Compares the machine, opens and compares the files, places restorer, stack, arguments and filter where
 * nothing of the snapshot lies. 0 or negative errno: -ESTALE names a file that differs, -ENOTSUP a kernel,
 * processor or layout that the snapshot is not for, -ENOMEM a limit that is too small for it. Nothing has
 * changed for the caller then, what was begun is given up, and *out is NULL. The strings, the image, the
 * filter's instructions and the labels of the request are used until restore_go, the descriptors as well
 * unless the snapshot was mapped; the limits of resources and the identity are those of the moment. */
int restore_prepare(const struct restore_request *request, struct restore **out, struct error *err);

/* Is the snapshot mapped already, so that of the descriptors only the labels' are needed any more? */
bool restore_is_mapped(const struct restore *restore);

/* Give it up, and the memory back. NULL: nothing. */
void restore_free(struct restore *restore);

/* The jump. A failure after the old memory is gone ends the process with exit code 1. What has failed is sent
 * to `error_fd`, a socket, in one message: two ints, error_message and a negative errno, and a text with its
 * NUL, as container/sync.h has it. Success closes error_fd. -1: nobody listens. */
_Noreturn void restore_go(struct restore *restore, int error_fd);

#endif
