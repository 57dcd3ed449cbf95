/* The owners of files as a container sees them: user_namespaces(7), idmapped mounts (mount_setattr(2)). Two
 * containers with other host IDs can share a snapshot if they see the same owners and have the same rights.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "spec/spec.h"

struct file_identity;

struct owners {
    /* All mappings of IDs, those of mounts too. With the same text, containers see the same owners. */
    const char *text;
    bool mapped; /* the container has a user namespace: the following tells the IDs in it */
    struct spec_idmaps uids, gids;
    uint32_t unmapped_uid, unmapped_gid; /* what the kernel shows for IDs without a mapping */
};

/* Read what the kernel shows for IDs without a mapping (/proc/sys/kernel/overflowuid). */
void owners_read_unmapped(struct owners *out);

/* Replace owner and group, as this process sees them, by those that the container sees. */
void owners_translate(const struct owners *owners, struct file_identity *id);
