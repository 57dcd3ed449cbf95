/* linux.maskedPaths and linux.readonlyPaths: parts of /proc and /sys that a container must not read or write
 * (runtime-spec config-linux.md). */
#ifndef PYSBX_SANDBOX_MOUNT_MASKS_H
#define PYSBX_SANDBOX_MOUNT_MASKS_H

#include <stddef.h>

#include "spec/spec.h"

struct arena;
struct error;
struct json_out;
struct mounts_plan;

struct masks_plan {
    const char **masked, **readonly; /* absolute and clean */
    size_t masked_count, readonly_count;
    const char *label_key, *label; /* SELinux context of the empty directory; label NULL: none */
};

int masks_plan(struct arena *a, const struct spec_linux *linux_, const char *label_key, const char *label,
               struct masks_plan *out, struct error *err);

/* Child, while the host's root is still in place: cover masked files with the host's /dev/null (verified to
 * be that device: CVE-2025-31133) and masked directories with one empty read-only tmpfs, shared by all; make
 * read-only paths so with everything mounted below. Paths that do not exist, or that even the container's
 * root cannot reach, are passed over. */
int masks_apply(const struct masks_plan *plan, const struct mounts_plan *mounts, int rootfd,
                struct error *err);

void masks_describe(const struct masks_plan *plan, struct json_out *out);

#endif
