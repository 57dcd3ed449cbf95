/* Device nodes and links in the container's /dev: the defaults and linux.devices (runtime-spec
 * config-linux.md). Made with mknod(2), or bound from the host where that is not permitted. In a user
 * namespace, what linux.devices names is made outside of it, where root may, on a file system whose nodes can
 * be opened. */
#ifndef PYSBX_SANDBOX_MOUNT_DEVICES_H
#define PYSBX_SANDBOX_MOUNT_DEVICES_H

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
    const char *dir;       /* what holds it */
    const char *name;      /* last component */
    const char *host_path; /* tried when path is not the device on the host: /dev/char/M:N */
    mode_t mode;           /* type and permissions */
    dev_t rdev;
    uid_t uid;
    gid_t gid;
    bool bind; /* may not be made: bound from the host, or from where it was made */
    bool make; /* by the parent, outside of the container, with these owners there */
    uint32_t host_uid, host_gid;
    bool if_dev_exists; /* a default: left out of a root without /dev */
    int source_fd;      /* detached clone made by devices_prepare; else -1 */
};

struct devices_plan {
    struct device_plan *items;
    size_t count;
    bool links;     /* fd, stdin, stdout, stderr, ptmx */
    bool core_link; /* core: where the host has /proc/kcore */
    bool prepare;
    int nodes; /* file system of those that the parent has made; else -1 */
    const char *label_key, *label;
};

/* host_dev: /dev is a bind mount and belongs to someone else: nothing is made in it. The label (or NULL) is
 * for nodes that are made outside of the container's own file systems. */
int devices_plan(struct arena *a, const struct spec *spec, const struct rootfs_context *context,
                 bool host_dev, struct devices_plan *out, struct error *err);

/* Parent, if it is the one who may: make the nodes that config.json asks for, for in a user namespace nobody
 * can, and open those of the host that will be bound instead. */
int devices_prepare(struct devices_plan *plan, struct error *err);
void devices_release(struct devices_plan *plan);

/* Child, after all mounts, umask 0. A node of the same kind and number that exists already is kept; a regular
 * file in its place is bound over; anything else, above all a symbolic link, is refused: nothing that the
 * image put there is followed, changed or removed (CVE-2026-47766, CVE-2026-88265, CVE-2026-41579). */
int devices_apply(struct devices_plan *plan, int rootfd, struct error *err);

void devices_describe(const struct devices_plan *plan, struct json_out *out);

#endif
