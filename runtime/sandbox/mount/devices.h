/* Device nodes and links in the container's /dev: the defaults and linux.devices (runtime-spec
 * config-linux.md). They are made with mknod(2), or bound from the host where that is not permitted. For a
 * container with a user namespace, a runtime that may make nodes makes those of linux.devices outside of it,
 * on a file system that permits opening them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct arena;
struct error;
struct json_out;
struct rootfs_context;
struct spec;

struct device_plan {
    const char *path;      /* absolute, clean */
    const char *dir;       /* the directory of it */
    const char *name;      /* last component */
    const char *host_path; /* used if `path` is not the device on the host: /dev/char/M:N */
    mode_t mode;           /* type and permissions */
    dev_t rdev;
    uid_t uid;
    gid_t gid;
    bool bind; /* mknod is not permitted: bind it from the host, or from the parent's file system */
    bool make; /* the parent makes it outside of the container, with these owners */
    uint32_t host_uid, host_gid;
    bool if_dev_exists; /* a default device: left out of a root without /dev */
    int source_fd;      /* detached clone made by devices_prepare; else -1 */
};

struct devices_plan {
    struct device_plan *items;
    size_t count;
    bool links;     /* fd, stdin, stdout, stderr, ptmx */
    bool core_link; /* core: where the host has /proc/kcore */
    bool prepare;
    int nodes; /* file system of the nodes that the parent made; else -1 */
    /* SELinux context of nodes that are made outside of the container; label NULL: none. */
    const char *label_key, *label;
};

/* Plan nodes and links. host_dev: /dev is a bind mount, so it belongs to the host and nothing is made in it.
 * Return 0 or a negative errno with the JSON path. */
int devices_plan(struct arena *a, const struct spec *spec, const struct rootfs_context *context,
                 bool host_dev, struct devices_plan *out, struct error *err);

/* Parent: make the nodes of linux.devices that it may make, because a process in a user namespace cannot.
 * Open the nodes of the host that will be bound instead. Return 0 or a negative errno. */
int devices_prepare(struct devices_plan *plan, struct error *err);
/* Close the descriptors of devices_prepare. It may be called twice. */
void devices_release(struct devices_plan *plan);

/* Child, after all mounts, with umask 0: create the nodes and links. An existing node of the same type and
 * number is kept, and a regular file in its place is covered by a bind. Any other file, above all a symbolic
 * link, is refused. No file of the image is followed, changed or removed (CVE-2026-47766, CVE-2026-88265,
 * CVE-2026-41579). Return 0 or a negative errno. */
int devices_apply(struct devices_plan *plan, int rootfd, struct error *err);

/* Write pairs into the surrounding map: devices and deviceLinks. */
void devices_describe(const struct devices_plan *plan, struct json_out *out);
