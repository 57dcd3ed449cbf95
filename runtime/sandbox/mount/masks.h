/* linux.maskedPaths and linux.readonlyPaths: parts of /proc and /sys that a container must not read or write
 * (runtime-spec config-linux.md). */
#pragma once

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

/* Check the paths and copy them to the arena. Return 0 or a negative errno with the JSON path. */
int masks_plan(struct arena *a, const struct spec_linux *linux_, const char *label_key, const char *label,
               struct masks_plan *out, struct error *err);

/* Child, while the host's root is still in place: cover masked paths and make read-only paths read-only with
 * all mounts below. The host's /dev/null covers a masked file, after a check that it is that device
 * (CVE-2025-31133). One empty read-only tmpfs covers all masked directories. Paths that do not exist, or that
 * even the container's root cannot reach, are skipped. Return 0 or a negative errno. */
int masks_apply(const struct masks_plan *plan, const struct mounts_plan *mounts, int rootfd,
                struct error *err);

/* Write pairs into the surrounding map: maskedPaths, readonlyPaths. */
void masks_describe(const struct masks_plan *plan, struct json_out *out);
