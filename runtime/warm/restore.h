/* Turn the calling process, which is about to become the container's program, into the interpreter of a
 * snapshot. No execve: the process is in the container's namespaces, root, cgroup and identity already; what is
 * left is to exchange its memory. Everything that can fail happens in restore_prepare, where the caller can still
 * fall back to execve; restore_go does not return. */
#ifndef PYSBX_WARM_RESTORE_H
#define PYSBX_WARM_RESTORE_H

#include <linux/capability.h>
#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

#include "warm/params.h"

struct error;
struct restore;

/* What remains to be done after the memory was exchanged, by the restorer itself, so that the container's filter
 * need not allow what the restorer does. */
struct restore_finish {
    const struct sock_fprog *filter; /* NULL for none */
    unsigned filter_flags;
    const struct __user_cap_data_struct *caps; /* two elements, set after the filter; NULL: leave as they are */
    unsigned close_from;                       /* every descriptor from this one on is closed, last of all */
};

struct restore_request {
    int image;      /* the snapshot, open for reading; sealed by its name and mode, validated here */
    int root;       /* the container's root: mapped files are opened beneath it and compared with the image */
    int agent;      /* the agent, in a sealed memfd (warm/agent/agent.h) */
    const char *comm;
    char *const *argv, *const *envp;
    enum warm_program program;
    size_t program_index;
    struct restore_finish finish;
};

/* Validates the image, opens and compares the files, places restorer, stack, arguments and filter where nothing
 * of the snapshot lies. 0 or negative errno: -ESTALE names a file that differs, -ENOTSUP a kernel, processor or
 * layout that the snapshot is not for. Nothing has changed for the caller then. */
int restore_prepare(const struct restore_request *request, struct restore **out, struct error *err);

/* The jump. A failure after the old memory is gone ends the process: the text goes to `error_fd` as
 * sync_send_error would send it, prepared beforehand. */
_Noreturn void restore_go(struct restore *restore, int error_fd);

#endif
